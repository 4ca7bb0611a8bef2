#include "peers.h"

#include <algorithm>

namespace torpor::arena {

CUmemAccessDesc access_for(int device, CUmemAccess_flags flags) {
  CUmemAccessDesc desc{};
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.location.id = device;
  desc.flags = flags;
  return desc;
}

std::vector<CUmemAccessDesc> Peers::access(int device) const {
  std::set<int> devices{device};
  for (const Pair& pair : pairs_) {
    if (pair.to == device) devices.insert(pair.from);
  }
  std::vector<CUmemAccessDesc> out;
  for (const int each : devices) {
    out.push_back(access_for(each, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  }
  return out;
}

void Peers::enable(const contexts::Context& from, const contexts::Context& to) {
  pairs_.insert({from.id, to.id, from.device, to.device});
}

void Peers::disable(const contexts::Context& from, const contexts::Context& to) {
  pairs_.erase({from.id, to.id, from.device, to.device});
}

bool Peers::reaches(int from, int to) const {
  return std::any_of(pairs_.begin(), pairs_.end(),
                     [=](const Pair& pair) { return pair.from == from && pair.to == to; });
}

std::vector<std::pair<int, int>> Peers::forget(const contexts::Context& context) {
  std::set<std::pair<int, int>> touched;
  for (auto pair = pairs_.begin(); pair != pairs_.end();) {
    if (pair->from_id == context.id || pair->to_id == context.id) {
      touched.emplace(pair->to, pair->from);
      pair = pairs_.erase(pair);
    } else {
      ++pair;
    }
  }
  std::vector<std::pair<int, int>> out;
  for (const auto& [to, from] : touched) {
    if (!reaches(from, to)) out.emplace_back(to, from);
  }
  return out;
}

}  // namespace torpor::arena
