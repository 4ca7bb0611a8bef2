#include "marks.h"

#include "../arena/contexts.h"
#include "../arena/shared_name.h"
#include "../generated/real.h"
#include "event_table.h"

namespace torpor::share {

CUevent Marks::make(CUcontext context) {
  CUevent out = nullptr;
  const contexts::Pushed pushed(context);
  if (pushed.status == CUDA_SUCCESS) real::cuEventCreate(&out, CU_EVENT_DISABLE_TIMING);
  return out;
}

// Process ids come again: numbers begin anywhere, so that the next process of that id does not answer for this one's.
std::uint64_t Marks::next_number() {
  if (last_number_ == 0) last_number_ = arena::own_name().nonce % (EventWord::kNumbers / 2);
  return ++last_number_;
}

// Looks at two of them, the next ones each time: there is one more per recording, so all that are done go in time, and a
// recording costs the same however many are under way.
void Marks::tidy() {
  for (int i = 0; i < 2 && !under_way_.empty(); ++i) {
    auto each = under_way_.upper_bound(looked_at_);
    if (each == under_way_.end()) each = under_way_.begin();
    looked_at_ = each->first;
    if (each->second.pins != 0 || real::cuEventQuery(each->second.mark) == CUDA_ERROR_NOT_READY) continue;
    give(each->second.context, each->second.mark);
    under_way_.erase(each);
  }
}

CUevent Marks::take(CUcontext context) {
  tidy();
  std::vector<CUevent>& spare = spare_[context];
  if (spare.empty()) return make(context);
  const CUevent mark = spare.back();
  spare.pop_back();
  return mark;
}

void Marks::give(CUcontext context, CUevent mark) { spare_[context].push_back(mark); }

std::uint64_t Marks::enter(CUcontext context, CUevent mark) {
  const std::uint64_t number = next_number();
  under_way_.emplace(number, UnderWay{context, mark});
  return number;
}

bool Marks::is_done(std::uint64_t number) const {
  const auto found = under_way_.find(number);
  return found == under_way_.end() || real::cuEventQuery(found->second.mark) != CUDA_ERROR_NOT_READY;
}

CUevent Marks::pin(std::uint64_t number) {
  const auto found = under_way_.find(number);
  if (found == under_way_.end()) return nullptr;
  ++found->second.pins;
  return found->second.mark;
}

void Marks::unpin(std::uint64_t number) {
  if (const auto found = under_way_.find(number); found != under_way_.end()) --found->second.pins;
}

CUevent Marks::blank(CUcontext context) {
  CUevent& blank = blanks_[context];
  if (blank == nullptr) blank = make(context);
  return blank;
}

void Marks::forget(CUcontext context) {
  std::erase_if(under_way_, [context](const auto& each) { return each.second.context == context; });
  spare_.erase(context);
  blanks_.erase(context);
}

}  // namespace torpor::share
