// What is exchanged, cut into slices for several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "../prim/spin_lock.h"
#include "mappings.h"
#include "span.h"

namespace torpor::pinned {

constexpr std::uint64_t kSlice = 32ULL << 20;

// Slices for whoever asks next.
class Slices {
 public:
  explicit Slices(const Spans& spans) : spans_(spans), at_(spans.count > 0 ? spans.spans[0].start : 0) {}

  bool next(Span& out) {
    const SpinLock::Held held(lock_);
    const bool any = number_ < spans_.count && !failed_.load(std::memory_order_relaxed);
    if (any) {
      const Span& whole = spans_.spans[number_];
      out = {at_, std::min(whole.end, at_ / kSlice * kSlice + kSlice)};
      at_ = out.end;
      if (at_ == whole.end && ++number_ < spans_.count) at_ = spans_.spans[number_].start;
    }
    return any;
  }
  // After the exchange: what nobody asked for, as something failed.
  bool left(Span& out) {
    failed_.store(false, std::memory_order_relaxed);
    return next(out);
  }
  void fail() { failed_.store(true, std::memory_order_relaxed); }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  std::uint64_t size() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < spans_.count; ++i) sum += spans_.spans[i].size();
    return sum;
  }

 private:
  const Spans& spans_;
  std::size_t number_ = 0;
  std::uint64_t at_;
  SpinLock lock_;
  std::atomic<bool> failed_{false};
};

}  // namespace torpor::pinned
