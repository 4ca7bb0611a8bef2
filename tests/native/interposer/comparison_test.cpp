// When deferring is compared with going straight, and when it has lost. Exits with 1 and says what does not hold.
#include "../../../native/interposer/vm/comparison.h"

#include <cstdint>

#include "check.h"

using torpor::vm::Comparison;
using Next = Comparison::Next;

namespace {

constexpr std::uint64_t kCalls = 512;

struct Program {
  Comparison comparison;
  std::uint64_t now = 1'000'000, stretches = 0, won = 0;

  // The window in which deferring has lost; 0 when it has not in so many.
  std::uint64_t lost(std::uint64_t deferred_ns, std::uint64_t straight_ns, std::uint64_t windows) {
    for (std::uint64_t window = 1; window <= windows; ++window) {
      now += kCalls * deferred_ns;
      switch (comparison.window(now, kCalls)) {
        case Next::as_before: break;
        case Next::go_straight:
          ++stretches;
          now += 2 * kCalls * straight_ns;
          comparison.straight(straight_ns);
          break;
        case Next::won: ++won; break;
        case Next::lost: return window;
      }
    }
    return 0;
  }
};

void what_is_slower_loses_soon() {
  Program program;
  const std::uint64_t first = program.lost(600, 460, 1000);
  CHECK(first > 0 && first < 20);
  CHECK(program.stretches == 2 && program.won == 0);
  const std::uint64_t second = program.lost(600, 460, 1000);
  CHECK(second > 0 && second < 20);
}

void what_is_faster_is_asked_less_and_less() {
  Program program;
  CHECK(program.lost(5000, 9500, 10'000) == 0);
  CHECK(program.stretches < 50);
  CHECK(program.stretches > 10'000 / (Comparison::kMost + 3) - 10);
  CHECK(program.won + 1 >= program.stretches);
}

void what_is_within_the_error_does_not_lose() {
  Program program;
  CHECK(program.lost(1000, 990, 10'000) == 0);
}

void once_is_chance() {
  Program program;
  for (int window = 0; window < 3000; ++window) {
    const bool third = program.stretches == 2;  // in which something else took long
    CHECK(program.lost(1000, third ? 100 : 2000, 1) == 0);
  }
  CHECK(program.stretches > 10);
}

void a_program_that_changes_is_found_out() {
  Program program;
  CHECK(program.lost(500, 1000, 2000) == 0);
  const std::uint64_t found = program.lost(1000, 500, 2000);
  CHECK(found > 0 && found < 2 * Comparison::kMost + 20);
}

void an_interruption_is_no_window() {
  Program program;
  CHECK(program.lost(500, 1000, 3) == 0);
  program.comparison.interrupted();
  program.now += 1'000'000'000;  // straight, for long
  CHECK(program.lost(500, 1000, 100) == 0);
  CHECK(program.won == program.stretches && program.won > 1);
}

}  // namespace

int main() {
  what_is_slower_loses_soon();
  what_is_faster_is_asked_less_and_less();
  what_is_within_the_error_does_not_lose();
  once_is_chance();
  a_program_that_changes_is_found_out();
  an_interruption_is_no_window();
}
