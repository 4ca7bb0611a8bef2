// Which devices may reach which device's blocks.
//
// cuCtxEnablePeerAccess lets one context reach the memory of another; blocks are opened per device, so this counts the
// pairs of contexts behind each pair of devices. Not thread safe; the arena's structure lock covers it.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "../../abi/cuda_driver.h"
#include "contexts.h"

namespace torpor::arena {

CUmemAccessDesc access_for(int device, CUmemAccess_flags flags);

class Peers {
 public:
  // Read and write access for the device itself and for every device that was let in.
  std::vector<CUmemAccessDesc> access(int device) const;

  void enable(const contexts::Context& from, const contexts::Context& to);
  void disable(const contexts::Context& from, const contexts::Context& to);
  // Drops every pair with this context; returns the devices whose access() became smaller, each with the device that
  // was shut out.
  std::vector<std::pair<int, int>> forget(const contexts::Context& context);

  // True when some context of `from` reaches the memory of `to`.
  bool reaches(int from, int to) const;

 private:
  struct Pair {
    std::uint64_t from_id, to_id;
    int from, to;
    auto operator<=>(const Pair&) const = default;
  };
  std::set<Pair> pairs_;
};

}  // namespace torpor::arena
