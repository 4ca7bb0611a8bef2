// One pool of stream-ordered memory: which parts of its blocks are free, and for whom.
//
// Memory that was freed in a stream can be used again in that stream at once, since work there keeps its order, and
// anywhere once the stream is past the free. That is told by fences: events that were recorded behind frees. Knows
// nothing of the driver and of locks; the caller (pools.cpp) has both.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "stream_key.h"

namespace torpor::arena {

class StreamPool {
 public:
  struct Fence {
    std::uint64_t frees;  // the frees in its stream up to this one of the pool are behind the event
    CUevent event;
  };
  struct Lane {
    std::uint64_t frees = 0;     // the pool's count at the last one
    std::uint64_t unfenced = 0;  // bytes freed since the last fence
    std::uint64_t thread = 0;    // that freed last in the stream, by thread::serial()
    std::vector<Fence> fences;   // oldest first
    std::set<std::pair<std::uint64_t, CUdeviceptr>> parts;  // (size, address)
    bool ended = false;          // the stream was destroyed: its handle may be another stream's
  };
  using Lanes = std::multimap<StreamKey, Lane>;

  static constexpr std::uint64_t kGrain = 512;

  // Memory of a block that nobody uses yet.
  void add_block(CUdeviceptr address, std::uint64_t size);
  // Blocks that are free wholly, and for everybody, as long as more than `keep` bytes are held; they are forgotten here.
  std::vector<CUdeviceptr> drop_blocks(std::uint64_t keep);

  // The part of the smallest size that fits, in the order of this stream. Sizes are rounded up to kGrain.
  std::optional<CUdeviceptr> take(const StreamKey& key, std::uint64_t size);
  // Free in the order of the stream, by that thread (0: by one that does not use the stream); for everybody without a key.
  Lane& give(const StreamKey& key, std::uint64_t thread, CUdeviceptr address, std::uint64_t size);
  void give(CUdeviceptr address, std::uint64_t size);

  Lanes& lanes() { return lanes_; }
  // What was freed before the lane's oldest fence is for everybody.
  void pass_fence(Lane& lane) { pass(lane, lane.fences.front().frees); }
  // How often memory was freed in some stream's order; what was freed in the context up to some such time is for everybody.
  std::uint64_t frees() const { return frees_; }
  void pass_context(CUcontext context, std::uint64_t frees);
  // All of it is for everybody; the fences' events are the caller's to destroy.
  std::vector<CUevent> pass_all(Lane& lane);
  // Whether the lane holds nothing and can go.
  static bool is_idle(const Lane& lane) { return lane.parts.empty() && lane.fences.empty(); }

  std::uint64_t reserved() const { return reserved_; }
  std::uint64_t reserved_high() const { return reserved_high_; }
  std::uint64_t used() const { return used_; }
  std::uint64_t used_high() const { return used_high_; }
  void reset_reserved_high() { reserved_high_ = reserved_; }
  void reset_used_high() { used_high_ = used_; }
  const std::map<CUdeviceptr, std::uint64_t>& blocks() const { return blocks_; }

 private:
  struct Part {
    std::uint64_t size;
    Lane* lane;           // null: for everybody
    std::uint64_t frees;  // the pool's count at the free
  };
  using Parts = std::map<CUdeviceptr, Part>;

  std::set<std::pair<std::uint64_t, CUdeviceptr>>& index(Lane* lane) { return lane != nullptr ? lane->parts : ready_; }
  void insert(CUdeviceptr address, Part part);
  void erase(Parts::iterator part);
  Lane& lane(const StreamKey& key);
  void pass(Lane& lane, std::uint64_t frees);
  bool same_block(CUdeviceptr a, CUdeviceptr b) const;

  std::map<CUdeviceptr, std::uint64_t> blocks_;  // address -> size
  Parts parts_;                                  // all that is free
  std::set<std::pair<std::uint64_t, CUdeviceptr>> ready_;
  Lanes lanes_;
  std::uint64_t frees_ = 0;
  std::uint64_t reserved_ = 0, reserved_high_ = 0, used_ = 0, used_high_ = 0;
};

}  // namespace torpor::arena
