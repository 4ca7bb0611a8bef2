#include "coverage.h"

#include <algorithm>

namespace torpor::cupti {

namespace {

constexpr std::size_t kMostSlices = std::size_t{1} << 16;
constexpr std::size_t kFreshShare = 8;  // of what is kept: how many may wait to be put in order

}  // namespace

void Slices::coarsen() {
  const std::size_t half = (covered_.size() + 1) / 2;
  for (std::size_t i = 0; i < half; ++i) {
    covered_[i] = covered_[2 * i] + (2 * i + 1 < covered_.size() ? covered_[2 * i + 1] : 0);
  }
  covered_.resize(half);
  width_ *= 2;
}

// Makes slices from `start` to `end` where there are none yet.
void Slices::reach(std::uint64_t start, std::uint64_t end) {
  if (covered_.empty()) base_ = start;
  // Divided, not multiplied: a record whose times make no sense must not lead round the corner.
  const auto span = [&] { return (std::max(end, base_) - std::min(start, base_)) / width_ + 2; };
  while (span() > kMostSlices) coarsen();
  if (start < base_) {
    const std::uint64_t before = (base_ - start + width_ - 1) / width_;
    covered_.insert(covered_.begin(), before, 0);
    base_ -= std::min(base_, before * width_);
  }
  if (end > base_) covered_.resize(std::max<std::size_t>(covered_.size(), (end - base_ - 1) / width_ + 1));
}

void Slices::cover(std::uint64_t start, std::uint64_t end, bool free) {
  reach(start, end);
  for (std::uint64_t i = (start - base_) / width_; start < end; ++i) {
    const std::uint64_t border = std::min(end, base_ + (i + 1) * width_);
    const std::uint64_t part = border - start;
    std::uint64_t& known = covered_[i];
    const std::uint64_t room = width_ - std::min(width_, known);
    std::uint64_t more = std::min(part, room);
    if (!free) {
      const double met = static_cast<double>(part) * static_cast<double>(known) / static_cast<double>(width_);
      more = std::min(more, part - std::min(part, static_cast<std::uint64_t>(met)));
    }
    known += more;
    total_ += more;
    start = border;
  }
}

void Coverage::add(std::uint64_t start, std::uint64_t end) {
  fresh_.push_back({start, end});
  if (fresh_.size() >= std::max<std::size_t>(1, most_ / kFreshShare)) settle();
}

std::uint64_t Coverage::total() {
  settle();
  std::uint64_t sum = past_.total();
  for (const Interval& each : kept_) sum += each.end - each.start;
  return sum;
}

void Coverage::settle() {
  const auto earlier = [](const Interval& a, const Interval& b) { return a.start < b.start; };
  const std::size_t ordered = kept_.size();
  kept_.reserve(ordered + fresh_.size());
  std::sort(fresh_.begin(), fresh_.end(), earlier);
  std::uint64_t told = 0;  // the late ones among themselves overlap as others do
  for (Interval each : fresh_) {
    if (each.start < horizon_) {
      const std::uint64_t start = std::max(each.start, told), end = std::min(each.end, horizon_);
      if (start < end) past_.add_late(start, end);
      told = std::max(told, end);
      each.start = horizon_;
    }
    if (each.start < each.end) kept_.push_back(each);
  }
  fresh_.clear();
  // Cut ones all begin at the horizon, so the second half is in order still.
  std::inplace_merge(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(ordered), kept_.end(), earlier);
  std::size_t last = 0;
  for (std::size_t i = 1; i < kept_.size(); ++i) {
    if (kept_[i].start <= kept_[last].end) kept_[last].end = std::max(kept_[last].end, kept_[i].end);
    else kept_[++last] = kept_[i];
  }
  if (!kept_.empty()) kept_.resize(last + 1);
  if (kept_.size() <= most_) return;
  const std::size_t gone = kept_.size() - most_ / 2;
  for (std::size_t i = 0; i < gone; ++i) past_.add(kept_[i].start, kept_[i].end);
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(gone));
  horizon_ = kept_.empty() ? horizon_ : kept_.front().start;
}

}  // namespace torpor::cupti
