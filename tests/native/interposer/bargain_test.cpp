// What a graph is compared with, and when it is given up. Exits with 1 and says what does not hold.
#include "../../../native/interposer/vm/bargain.h"

#include "check.h"

using torpor::vm::Trial;
using torpor::vm::Usual;

namespace {

std::uint64_t usual(std::uint64_t first, std::uint64_t often, int times, std::uint64_t last = 0) {
  Usual usual;
  usual.note(first);
  for (int i = 0; i < times; ++i) usual.note(often);
  if (last != 0) usual.note(last);
  return usual.ns();
}

void one_call_says_little() {
  CHECK(usual(2000, 2000, 5) == 2000);
  CHECK(usual(100'000, 2000, 10) < 2100);              // the first one made something
  CHECK(usual(2000, 2000, 10, 4'000'000) <= 2000 + 2000 / 16);  // another thread had the processor
  CHECK(usual(2000, 3000, 200) > 2900);                // it really takes longer by now
}

// How many launches until it is given up, `most` if it is not.
int given_up(std::uint64_t took, std::uint64_t apart, std::uint64_t once, int most) {
  Trial trial;
  for (int i = 1; i <= most; ++i) {
    if (!trial.pays(i == 5 ? once : took, apart)) return i;
  }
  return most;
}

void what_saves_nothing_is_given_up() {
  constexpr int first = Trial::kLaunches;
  CHECK(given_up(9000, 10'000, 9000, 100) == first);
  CHECK(given_up(8000, 10'000, 8000, 100) == 100);
  CHECK(given_up(7000, 10'000, 5'000'000, 100) == 100);
  Trial trial;  // good at first
  for (int i = 0; i < first; ++i) CHECK(trial.pays(1000, 10'000));
  for (int i = 1; i < first; ++i) CHECK(trial.pays(10'000, 10'000));
  CHECK(!trial.pays(10'000, 10'000));
}

}  // namespace

int main() {
  one_call_says_little();
  what_saves_nothing_is_given_up();
}
