// Up to where putting registered memory into files is worth it. Exits with 1 and says what does not hold.
#include "../../../native/interposer/pinned/worth.h"

#include "../interposer/check.h"

using torpor::pinned::Worth;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

Worth after(std::uint64_t there, std::uint64_t lasted, std::uint64_t back) {
  Worth worth;
  worth.exchanged(there);
  worth.undone(there, lasted, back);
  return worth;
}

void ten_seconds_in_vain_are_enough() {
  CHECK(Worth().more());
  CHECK(after(4 * kSecond, 0, 6 * kSecond).more());
  CHECK(!after(4 * kSecond, 0, 6 * kSecond + 1).more());
  Worth worth;
  for (int time = 0; time < 100; ++time) {
    CHECK(worth.more());
    worth.exchanged(kSecond / 20);
    worth.undone(kSecond / 20, kSecond / 2, kSecond / 20);
  }
  CHECK(worth.more());
  worth.undone(1, 0, 0);
  CHECK(!worth.more());
}

void what_fails_is_in_vain() {
  Worth worth;
  worth.failed(10 * kSecond);
  CHECK(worth.more());
  worth.failed(1);
  CHECK(!worth.more());
}

void what_stays_for_long_is_not_in_vain() {
  constexpr std::uint64_t there = 11 * kSecond, soon = Worth::kSoon * there;
  CHECK(after(there, soon, there).more());
  CHECK(!after(there, soon - 1, there).more());
  Worth worth;
  for (int time = 0; time < 1000; ++time) {
    worth.exchanged(kSecond);
    worth.undone(kSecond, 60 * kSecond, kSecond);
  }
  CHECK(worth.more());
}

void looking_takes_less_than_what_it_is_for() {
  Worth worth;
  worth.looked(Worth::kLooking);
  CHECK(worth.more());
  worth.looked(1);
  CHECK(!worth.more());
  worth.undone(1, 60 * kSecond, 1);
  CHECK(!worth.more());
  worth.undone(1, 60 * kSecond, 1);
  CHECK(worth.more());
}

}  // namespace

int main() {
  ten_seconds_in_vain_are_enough();
  what_fails_is_in_vain();
  what_stays_for_long_is_not_in_vain();
  looking_takes_less_than_what_it_is_for();
}
