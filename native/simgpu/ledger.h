// Who uses how much device memory, over all processes of this user on this host.
//
// The books are one small file, `torpor-simgpu-<uid>` in TORPOR_SIM_DIR (default /dev/shm). A process with device
// memory owns one slot, and keeps it by a lock on an open file: when the process dies, however it dies, the kernel
// drops the lock and the slot counts no more. Memory that was shared by descriptor is booked per memfd inode and
// counts once, whoever holds it; when no slot holds it any longer, /proc is searched for a descriptor that does.
//
// Where the file cannot be made, only this process' own memory counts. Safe to call from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "config.h"
#include "descriptor.h"

namespace sim {

struct LedgerFile;  // the layout of the file

class Ledger {
 public:
  // Books `size` bytes of private memory; throws CUDA_ERROR_OUT_OF_MEMORY when `capacity` does not allow it.
  void charge(const Uuid& device, uint64_t capacity, uint64_t size);
  void refund(const Uuid& device, uint64_t size);

  // Turns private memory of this process into shared memory: its descriptor is about to leave.
  void publish(const Uuid& device, uint64_t inode, uint64_t size);
  // Books that this process holds shared memory, once more or for the first time. Never refuses: it exists.
  void hold(const Uuid& device, uint64_t inode, uint64_t size);
  void drop(const Uuid& device, uint64_t inode, uint64_t size);

  uint64_t used(const Uuid& device);

  // Gives up the slot, the mapping and the descriptor; what this process held is no longer booked.
  void leave();

  // In a forked child: closes what it inherited; the slot stays the parent's.
  void abandon();

 private:
  bool attach();
  void book(const Uuid& device, uint64_t inode, uint64_t size);
  void add_private(const Uuid& device, int64_t size);

  std::mutex mutex_;
  Descriptor file_;
  LedgerFile* books_ = nullptr;
  uint32_t slot_ = 0;
  bool unavailable_ = false;
  std::map<Uuid, uint64_t> alone_;  // bytes, where the file is unavailable
};

}  // namespace sim
