#include "sequence.h"

#include <algorithm>

namespace torpor::vm {
namespace {

std::uint64_t hash_of(const Step& step, bool is_step) {
  std::uint64_t hash = is_step ? 1 : 2;
  const auto mix = [&](std::uint64_t word) { hash = (hash ^ word) * 0x9e3779b97f4a7c15U, hash ^= hash >> 29; };
  for (const void* const handle : {static_cast<const void*>(step.context), static_cast<const void*>(step.stream),
                                   static_cast<const void*>(step.function)}) {
    mix(reinterpret_cast<std::uint64_t>(handle));
  }
  for (std::size_t i = 0; i < 3; ++i) mix(std::uint64_t{step.grid[i]} << 32 | step.block[i]);
  mix(std::uint64_t{step.shared_bytes} << 32 | step.parameter_bytes);
  mix(std::uint64_t{static_cast<std::uint32_t>(step.work)} << 32 | step.element);
  mix(step.bytes);
  return hash;
}

}  // namespace

std::vector<Step> Recogniser::note_other() { return note({{}, false}); }

void Recogniser::forget() {
  count_ = 0;
  streaks_.fill(0);
}

std::vector<Step> Recogniser::note(const Token& token) {
  tokens_[count_++ % tokens_.size()] = token;
  std::shift_right(hashes_.begin(), hashes_.end(), 1);
  hashes_[0] = hash_of(token.step, token.is_step);
  const std::size_t most = std::min(kMostSteps, count_ - 1);
  std::size_t found = 0;
  for (std::size_t period = most; period != 0; --period) {
    streaks_[period] = hashes_[period] == hashes_[0] ? streaks_[period] + 1 : 0;
    if (streaks_[period] >= 2 * period) found = period;
  }
  // Once, and again after a while: it may have been given up meanwhile in favour of others.
  if (found == 0 || (streaks_[found] != 2 * found && streaks_[found] % (64 * found) != 0)) return {};
  return longest(found);
}

// Of the last period, taken as a circle.
std::vector<Step> Recogniser::longest(std::size_t period) const {
  std::vector<Step> steps, best;
  bool whole = true;  // nothing but steps on one stream
  for (std::size_t i = 0; i < 2 * period; ++i) {
    const Token& token = back(period - 1 - i % period);
    const bool goes_on = token.is_step && (steps.empty() || (steps.back().stream == token.step.stream &&
                                                              steps.back().context == token.step.context));
    if (!goes_on) {
      whole = false;
      steps.clear();
    }
    if (token.is_step) steps.push_back(token.step);
    if (steps.size() > best.size() && steps.size() <= period) best = steps;
  }
  if (whole) {
    while (best.size() < good_) best.push_back(best[best.size() - period]);
  }
  if (best.size() < least_) best.clear();
  return best;
}

}  // namespace torpor::vm
