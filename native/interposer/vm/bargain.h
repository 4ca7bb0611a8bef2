// Whether a graph saves anything against the calls that it stands for. Times in nanoseconds; not thread safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace torpor::vm {

// What a call usually takes when nothing comes between: falls quickly and rises slowly, so that neither a first call, which may
// do more, nor a thread that lost its processor makes merging look better than it is.
class Usual {
 public:
  void note(std::uint64_t took) {
    if (ns_ == 0) {
      ns_ = took;
    } else if (took < ns_) {
      ns_ -= (ns_ - took) / 2;
    } else {
      ns_ += std::min(took - ns_, ns_) / 16;
    }
  }
  std::uint64_t ns() const { return ns_; }

 private:
  std::uint64_t ns_ = 0;
};

// A graph, launch by launch.
class Trial {
 public:
  static constexpr std::uint32_t kLaunches = 16;

  // A launch took so long, where the steps by themselves take `apart`. False when kLaunches of them did not save an eighth.
  bool pays(std::uint64_t took, std::uint64_t apart) {
    together_ += std::min(took, 2 * apart);  // more says something of the thread only, not of the graph
    apart_ += apart;
    if (++launches_ < kLaunches) return true;
    const bool saves = together_ < apart_ - apart_ / 8;
    *this = {};
    return saves;
  }

 private:
  std::uint32_t launches_ = 0;
  std::uint64_t together_ = 0, apart_ = 0;
};

}  // namespace torpor::vm
