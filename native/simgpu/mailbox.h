// How one process asks another for a checkpoint step: a memfd that the asked process keeps open and mapped, found
// through /proc/<pid>/fd, with a futex for each direction. No path, socket or name is involved, so a process that
// CRIU restored, into whatever PID namespace and as however many copies, is reached in the same way.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi.h"
#include "config.h"
#include "descriptor.h"

namespace sim {

enum class Step : uint32_t { lock = 1, checkpoint, restore, unlock };

struct Request {
  Step step;
  uint32_t timeout_ms;   // lock: 0 = none
  uint32_t pair_count;   // restore: old and new UUID by turns
  uint32_t machine_count;
  Uuid pairs[max_devices][2];
  DeviceSpec machine[max_devices];  // restore: the devices that there are, as the asking process sees them
};

struct Mailbox {
  char magic[16];
  int32_t owner;                 // process id as the owner sees it; a forked child inherits the memfd, not the role
  std::atomic<int32_t> thread;   // the serving thread's id, as the owner sees it
  std::atomic<uint32_t> state;   // CUprocessState
  std::atomic<uint32_t> asked;   // number of the last request: futex
  std::atomic<uint32_t> answered;  // number of the last answer: futex
  int32_t status;                // of the last answer, a CUresult
  Request request;               // written by whoever holds the memfd's flock, when `answered` equals `asked`
};

constexpr const char* mailbox_memfd_name = "torpor-simgpu-mailbox";

// A mapping of a mailbox, and the descriptor behind it.
class MappedMailbox {
 public:
  MappedMailbox() = default;
  // Makes this process' own.
  static MappedMailbox make();
  // Finds another's, by a process id of ours. Throws CUDA_ERROR_INVALID_VALUE when there is no such process,
  // CUDA_ERROR_NOT_PERMITTED when it is not ours to touch, CUDA_ERROR_NOT_INITIALIZED when it has no driver state.
  static MappedMailbox find(int pid);

  MappedMailbox(MappedMailbox&& other) noexcept;
  MappedMailbox& operator=(MappedMailbox&&) = delete;
  ~MappedMailbox();

  // Closes the descriptor. For a forked child: the mapping is not there.
  void abandon() { fd_.reset(); }

  Mailbox* operator->() const { return mailbox_; }
  int fd() const { return fd_.get(); }

 private:
  explicit MappedMailbox(Descriptor fd);

  Descriptor fd_;
  Mailbox* mailbox_ = nullptr;
};

// Waits until `word` is no longer `seen`, at most `milliseconds` (< 0: no limit). May return early.
void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, int milliseconds);
void futex_wake(std::atomic<uint32_t>& word);

}  // namespace sim
