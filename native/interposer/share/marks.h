// Recordings of shared events that this process has under way: behind each a mark was recorded, an event of ours, so that
// whoever waits is told how that very recording stands even when its event has been recorded again.
//
// The caller holds one lock around all of it. No call waits for the GPU.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "../../abi/cuda_driver.h"

namespace torpor::share {

class Marks {
 public:
  // A mark that nobody uses; null when the driver gives none.
  CUevent take(CUcontext context);
  void give(CUcontext context, CUevent mark);
  // A recording that `mark` is behind; its number.
  std::uint64_t enter(CUcontext context, CUevent mark);
  // One that is done.
  std::uint64_t enter_done() { return next_number(); }

  bool is_done(std::uint64_t number) const;
  // The mark, which stays what it is until unpin(); null when the recording is done.
  CUevent pin(std::uint64_t number);
  void unpin(std::uint64_t number);

  // An event of that context that is never recorded.
  CUevent blank(CUcontext context);

  // The context's events went with it.
  void forget(CUcontext context);

 private:
  struct UnderWay {
    CUcontext context;
    CUevent mark;
    unsigned pins = 0;
  };

  std::uint64_t next_number();
  void tidy();
  static CUevent make(CUcontext context);

  std::map<std::uint64_t, UnderWay> under_way_;
  std::unordered_map<CUcontext, std::vector<CUevent>> spare_;
  std::unordered_map<CUcontext, CUevent> blanks_;
  std::uint64_t last_number_ = 0;
  std::uint64_t looked_at_ = 0;
};

}  // namespace torpor::share
