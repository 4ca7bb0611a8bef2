// The union of intervals in bounded memory, against all of them in order.
#include "../../../native/cupti/coverage.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

using torpor::cupti::Coverage;
using Intervals = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

namespace {

std::uint64_t in_order(Intervals all) {
  std::sort(all.begin(), all.end());
  std::uint64_t sum = 0, until = 0;
  for (const auto& [start, end] : all) {
    if (end > until) sum += end - std::max(start, until);
    until = std::max(until, end);
  }
  return sum;
}

std::uint64_t kept(const Intervals& all, std::size_t most) {
  Coverage coverage(most);
  for (const auto& [start, end] : all) coverage.add(start, end);
  return coverage.total();
}

void expect(const char* what, std::uint64_t found, std::uint64_t wanted, std::uint64_t tolerance) {
  const std::uint64_t apart = found > wanted ? found - wanted : wanted - found;
  if (apart <= tolerance) return;
  std::printf("%s: %llu, not %llu\n", what, static_cast<unsigned long long>(found), static_cast<unsigned long long>(wanted));
  std::exit(1);
}

// Intervals of microseconds on several streams, each handed in up to `disorder` places later or earlier.
Intervals streams(std::mt19937_64& random, std::size_t count, std::size_t disorder) {
  Intervals all;
  std::uint64_t now = std::uint64_t{1} << 60;
  for (std::size_t i = 0; i < count; ++i) {
    now += random() % 12000;
    all.emplace_back(now, now + 1 + random() % 8000);
  }
  for (std::size_t i = 0; i + disorder < count; i += disorder) {
    std::shuffle(all.begin() + static_cast<std::ptrdiff_t>(i), all.begin() + static_cast<std::ptrdiff_t>(i + disorder), random);
  }
  return all;
}

}  // namespace

int main() {
  constexpr std::uint64_t kSecond = 1'000'000'000, kLong = std::uint64_t{1} << 60;
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    const Intervals all = streams(random, 20000, 1 + random() % 300);
    expect("all of them kept", kept(all, 1 << 20), in_order(all), 0);
    expect("the oldest folded", kept(all, 2048), in_order(all), 0);
  }
  // One that ran all the time and is told of last, and one that began before everything else did.
  Intervals late = streams(random, 200000, 100);
  late.emplace_back(kLong + kSecond / 10, kLong + kSecond);
  expect("a long one, late", kept(late, 2048), in_order(late), 2 << 20);
  late.emplace_back(kLong - kSecond, kLong + kSecond);
  expect("one from before", kept(late, 2048), in_order(late), 4 << 20);
  // Hours with pauses, in little memory: slices grow coarser, and stay exact for what comes in order.
  Intervals hours;
  for (std::uint64_t i = 0; i < 100000; ++i) hours.emplace_back(kLong + i * kSecond, kLong + i * kSecond + kSecond / 3);
  expect("a day", kept(hours, 512), in_order(hours), 0);
  // Late ones that meet half-covered slices are off by less than they are long.
  Intervals half = streams(random, 100000, 50);
  const std::uint64_t before = in_order(half);
  for (std::uint64_t i = 0; i < 200; ++i) half.emplace_back(kLong + i * 500'000, kLong + i * 500'000 + 100'000);
  expect("short ones, late", kept(half, 2048), in_order(half), (in_order(half) - before) / 2);
  // Times that make no sense must end, too.
  kept({{1, ~std::uint64_t{0}}, {kLong, kLong + 1}, {5, 6}, {~std::uint64_t{0} - 1, ~std::uint64_t{0}}}, 1);
  return 0;
}
