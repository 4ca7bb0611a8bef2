// Special registers, and the table of all instructions.
#include <chrono>

#include "exec/apply.h"
#include "exec/block.h"

namespace sim::exec {
namespace {

template <typename F>
void fill(Warp& w, const Op& op, F f) {
  for (unsigned i = 0; i < kLanes; ++i)
    if (w.mask >> i & 1) w.out<uint32_t>(op.d)[i] = f(w, i);
}

template <auto f>
void each(Warp& w, const Op& op) {
  fill(w, op, f);
}

template <unsigned axis>
uint32_t tid(Warp& w, unsigned lane) {
  const auto& size = w.block.grid.launch.block;
  const uint32_t thread = w.index * kLanes + lane;
  return axis == 0 ? thread % size[0] : axis == 1 ? thread / size[0] % size[1] : thread / size[0] / size[1];
}
template <unsigned axis>
uint32_t ntid(Warp& w, unsigned) { return w.block.grid.launch.block[axis]; }
template <unsigned axis>
uint32_t ctaid(Warp& w, unsigned) { return w.block.position[axis]; }
template <unsigned axis>
uint32_t nctaid(Warp& w, unsigned) { return w.block.grid.launch.grid[axis]; }
template <unsigned axis>
uint32_t cluster_ctaid(Warp& w, unsigned) { return w.block.position[axis] % w.block.grid.launch.cluster[axis]; }
template <unsigned axis>
uint32_t cluster_nctaid(Warp& w, unsigned) { return w.block.grid.launch.cluster[axis]; }
template <unsigned axis>
uint32_t clusterid(Warp& w, unsigned) { return w.block.position[axis] / w.block.grid.launch.cluster[axis]; }
template <unsigned axis>
uint32_t nclusterid(Warp& w, unsigned) { return w.block.grid.launch.grid[axis] / w.block.grid.launch.cluster[axis]; }

uint32_t laneid(Warp&, unsigned lane) { return lane; }
uint32_t warpid(Warp& w, unsigned) { return w.index; }
uint32_t nwarpid(Warp&, unsigned) { return 32; }
uint32_t smid(Warp& w, unsigned) { return static_cast<uint32_t>(w.block.number % 132); }
uint32_t nsmid(Warp&, unsigned) { return 132; }
uint32_t lanemask_eq(Warp&, unsigned lane) { return 1u << lane; }
uint32_t lanemask_lt(Warp&, unsigned lane) { return (1u << lane) - 1; }
uint32_t lanemask_le(Warp&, unsigned lane) { return (2u << lane) - 1; }
uint32_t lanemask_gt(Warp&, unsigned lane) { return ~((2u << lane) - 1); }
uint32_t lanemask_ge(Warp&, unsigned lane) { return ~((1u << lane) - 1); }
uint32_t dynamic_smem(Warp& w, unsigned) { return w.block.grid.launch.dynamic_shared; }
uint32_t total_smem(Warp& w, unsigned) { return w.block.grid.shared_bytes; }

uint64_t meeting(Warp& w) {
  return w.block.grid.launch.cooperative ? reinterpret_cast<uint64_t>(w.block.grid.meeting.data()) : 0;
}
uint32_t meeting_high(Warp& w, unsigned) { return static_cast<uint32_t>(meeting(w) >> 32); }
uint32_t meeting_low(Warp& w, unsigned) { return static_cast<uint32_t>(meeting(w)); }

uint64_t nanoseconds() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch()).count());
}
uint32_t clock32(Warp&, unsigned) { return static_cast<uint32_t>(nanoseconds()); }
uint32_t clock_high(Warp&, unsigned) { return static_cast<uint32_t>(nanoseconds() >> 32); }

void clock64(Warp& w, const Op& op) {
  const uint64_t now = nanoseconds();
  for (unsigned i = 0; i < kLanes; ++i)
    if (w.mask >> i & 1) w.out<uint64_t>(op.d)[i] = now;
}
void gridid64(Warp& w, const Op& op) {
  for (unsigned i = 0; i < kLanes; ++i)
    if (w.mask >> i & 1) w.out<uint64_t>(op.d)[i] = w.block.grid.launch.grid_number;
}

using Table = std::unordered_map<std::string_view, Translate>;
Table& table() {
  static Table all;
  return all;
}

}  // namespace

Translate translator(std::string_view word) {
  const auto found = table().find(word);
  return found == table().end() ? nullptr : found->second;
}

Instructions::Instructions(std::initializer_list<std::pair<std::string_view, Translate>> list) {
  for (const auto& [word, translate] : list) table()[word] = translate;
}

Run special_register(std::string_view name, bool& wide) {
  static const std::unordered_map<std::string_view, Run> narrow{
      {"%tid.x", each<tid<0>>}, {"%tid.y", each<tid<1>>}, {"%tid.z", each<tid<2>>},
      {"%ntid.x", each<ntid<0>>}, {"%ntid.y", each<ntid<1>>}, {"%ntid.z", each<ntid<2>>},
      {"%ctaid.x", each<ctaid<0>>}, {"%ctaid.y", each<ctaid<1>>}, {"%ctaid.z", each<ctaid<2>>},
      {"%nctaid.x", each<nctaid<0>>}, {"%nctaid.y", each<nctaid<1>>}, {"%nctaid.z", each<nctaid<2>>},
      {"%cluster_ctaid.x", each<cluster_ctaid<0>>}, {"%cluster_ctaid.y", each<cluster_ctaid<1>>},
      {"%cluster_ctaid.z", each<cluster_ctaid<2>>}, {"%cluster_nctaid.x", each<cluster_nctaid<0>>},
      {"%cluster_nctaid.y", each<cluster_nctaid<1>>}, {"%cluster_nctaid.z", each<cluster_nctaid<2>>},
      {"%clusterid.x", each<clusterid<0>>}, {"%clusterid.y", each<clusterid<1>>}, {"%clusterid.z", each<clusterid<2>>},
      {"%nclusterid.x", each<nclusterid<0>>}, {"%nclusterid.y", each<nclusterid<1>>},
      {"%nclusterid.z", each<nclusterid<2>>},
      {"%laneid", each<laneid>}, {"%warpid", each<warpid>}, {"%nwarpid", each<nwarpid>}, {"%smid", each<smid>},
      {"%nsmid", each<nsmid>}, {"%lanemask_eq", each<lanemask_eq>}, {"%lanemask_lt", each<lanemask_lt>},
      {"%lanemask_le", each<lanemask_le>}, {"%lanemask_gt", each<lanemask_gt>}, {"%lanemask_ge", each<lanemask_ge>},
      {"%envreg1", each<meeting_high>}, {"%envreg2", each<meeting_low>}, {"%clock", each<clock32>}, {"%clock_hi", each<clock_high>}, {"%globaltimer_lo", each<clock32>},
      {"%globaltimer_hi", each<clock_high>}, {"%dynamic_smem_size", each<dynamic_smem>},
      {"%total_smem_size", each<total_smem>}, {"WARP_SZ", each<nwarpid>}};
  static const std::unordered_map<std::string_view, Run> large{
      {"%clock64", clock64}, {"%globaltimer", clock64}, {"%gridid", gridid64}};
  wide = false;
  if (const auto found = narrow.find(name); found != narrow.end()) return found->second;
  wide = true;
  if (const auto found = large.find(name); found != large.end()) return found->second;
  return nullptr;
}

}  // namespace sim::exec
