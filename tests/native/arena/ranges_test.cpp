// Ranges against a plain model: a map of what is taken. Exits with 1 and says where the two differ.
#include "../../../native/interposer/arena/ranges.h"

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>

using torpor::arena::Ranges;

namespace {

void check(bool holds, const char* what, int line) {
  if (holds) return;
  std::fprintf(stderr, "line %d: %s\n", line, what);
  std::exit(1);
}
#define CHECK(condition) check((condition), #condition, __LINE__)

void whole_and_empty() {
  Ranges ranges(4096, 1024, 512);
  CHECK(ranges.unused() && ranges.largest() == 1024 && ranges.parts() == 1);
  CHECK(ranges.take(1025) == std::nullopt);
  CHECK(ranges.take(0) == std::nullopt);
  CHECK(ranges.take(~0ULL) == std::nullopt);
  CHECK(ranges.take(1) == 4096u);
  CHECK(ranges.take(512) == 4608u);
  CHECK(ranges.take(1) == std::nullopt && ranges.largest() == 0 && ranges.free_bytes() == 0);
  ranges.give(4608, 512);
  ranges.give(4096, 1);
  CHECK(ranges.unused() && ranges.parts() == 1);
  CHECK(ranges.contains(4096) && ranges.contains(5119) && !ranges.contains(4095) && !ranges.contains(5120));
}

void smallest_that_fits() {
  Ranges ranges(0, 100 * 512, 512);
  const auto a = *ranges.take(10 * 512);
  const auto b = *ranges.take(512);
  const auto c = *ranges.take(4 * 512);
  const auto d = *ranges.take(512);
  ranges.give(a, 10 * 512);
  ranges.give(c, 4 * 512);
  CHECK(ranges.take(3 * 512) == c);  // the gap of 4 fits better than the gap of 10 or the end
  CHECK(ranges.take(10 * 512) == a);
  ranges.give(b, 512);
  ranges.give(d, 512);
  CHECK(ranges.parts() == 2);  // b alone; d joined with the rest of c and with the end
}

void random_use(unsigned seed) {
  constexpr std::uint64_t kBase = 0x600000000000, kSize = 1 << 22, kGrain = 512;
  Ranges ranges(kBase, kSize, kGrain);
  std::map<std::uint64_t, std::uint64_t> taken;  // start -> asked size
  std::mt19937_64 random(seed);
  std::uint64_t used = 0;
  const auto rounded = [](std::uint64_t size) { return (size + kGrain - 1) / kGrain * kGrain; };
  for (int step = 0; step < 20000; ++step) {
    if (random() % 5 < 3) {
      const std::uint64_t size = 1 + random() % (random() % 2 ? 4096 : 65536);
      const bool fits = ranges.largest() >= rounded(size);
      const auto start = ranges.take(size);
      CHECK(start.has_value() == fits);
      if (!start) continue;
      CHECK((*start - kBase) % kGrain == 0 && *start >= kBase && *start + size <= kBase + kSize);
      const auto after = taken.lower_bound(*start);
      CHECK(after == taken.end() || *start + rounded(size) <= after->first);
      CHECK(after == taken.begin() || std::prev(after)->first + rounded(std::prev(after)->second) <= *start);
      taken.emplace(*start, size);
      used += rounded(size);
    } else if (!taken.empty()) {
      auto victim = taken.lower_bound(kBase + random() % kSize);
      if (victim == taken.end()) victim = taken.begin();
      ranges.give(victim->first, victim->second);
      used -= rounded(victim->second);
      taken.erase(victim);
    }
    CHECK(ranges.free_bytes() == kSize - used);
    CHECK(ranges.parts() <= taken.size() + 1);  // neighbours are always joined
  }
  for (const auto& [start, size] : taken) ranges.give(start, size);
  CHECK(ranges.unused() && ranges.parts() == 1 && ranges.largest() == kSize);
}

}  // namespace

int main() {
  whole_and_empty();
  smallest_that_fits();
  for (unsigned seed = 1; seed <= 8; ++seed) random_use(seed);
  return 0;
}
