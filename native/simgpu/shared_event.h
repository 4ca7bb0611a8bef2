// An event that several processes see: how often it was recorded and how far those recordings are, in a memfd's page.
//
// A recording belongs to the process that made it. When that process ends before it is done, the recording counts as
// done, so that nobody waits for good: each process holds a lock on one byte of the memfd, which the kernel drops.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "abi.h"
#include "descriptor.h"

namespace sim {

// Safe to call from any thread.
class SharedEvent {
 public:
  // Throws CUDA_ERROR_OUT_OF_MEMORY.
  static std::shared_ptr<SharedEvent> make();
  // Another process' event. Throws CUDA_ERROR_INVALID_VALUE for a handle that is none, CUDA_ERROR_INVALID_HANDLE when
  // the event is gone.
  static std::shared_ptr<SharedEvent> open(const CUipcEventHandle& handle);
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  CUipcEventHandle handle() const;
  bool named_by(const CUipcEventHandle& handle) const;

  // A recording: its number, and the byte of the process that made the one before.
  struct Turn {
    uint64_t number;
    uint32_t before;
  };
  Turn announce();
  // Recordings are done in their order (seen on an H200): returns when the one before is, or its process has ended.
  void await_turn(const Turn& turn, const std::function<bool()>& given_up);
  void complete(uint64_t number);   // it is done, and with it all before it
  uint64_t latest() const;          // number of the last recording; 0: never recorded
  bool done() { return done(latest()); }
  bool done(uint64_t number);
  // Returns when that recording is done, or `given_up` says so; asks at least every 50 ms.
  void wait(uint64_t number, const std::function<bool()>& given_up);

  void abandon() { fd_.reset(); }   // in a forked child

 private:
  struct Page;
  explicit SharedEvent(Descriptor fd);

  Descriptor fd_;
  uint64_t inode_ = 0;
  Page* page_ = nullptr;
  uint32_t own_byte_ = 0;
};

}  // namespace sim
