// Whether it is worth to put more of what a process registers into files. Times in nanoseconds; not thread safe.
#pragma once

#include <cstdint>

namespace torpor::pinned {

class Worth {
 public:
  // Looking takes time by the memory that the process has. It may take half of what the exchanges do, and this much more.
  static constexpr std::uint64_t kLooking = 200'000'000;
  // What may be spent in all on exchanges that came to nothing, and on memory that is soon unregistered again: 20 times what the
  // exchange took is soon.
  static constexpr std::uint64_t kInVain = 10'000'000'000;
  static constexpr std::uint64_t kSoon = 20;

  // Somebody looked whether memory can be exchanged.
  void looked(std::uint64_t took) { looking_ += took; }
  // Memory became a file.
  void exchanged(std::uint64_t took) { exchanging_ += took; }
  // It could not become one, all of it, in the time that it took to try.
  void failed(std::uint64_t took) {
    exchanging_ += took;
    in_vain_ += took;
  }
  // Memory that became a file in `there` became private again in `back`, after it had been a file for so long.
  void undone(std::uint64_t there, std::uint64_t lasted, std::uint64_t back) {
    exchanging_ += back;
    if (lasted < kSoon * there) in_vain_ += there + back;
  }

  // Whether one more piece may become a file. Those that are files become private memory again in any case.
  bool more() const { return looking_ <= kLooking + exchanging_ / 2 && in_vain_ <= kInVain; }

 private:
  std::uint64_t looking_ = 0, exchanging_ = 0, in_vain_ = 0;
};

}  // namespace torpor::pinned
