// Nobody who sleeps until a counter gets somewhere depends on a further step of it. Exits with 1 and says what does not hold.
#include "../../../native/interposer/vm/sleepers.h"

#include <thread>
#include <vector>

#include "check.h"

using torpor::vm::Sleepers;

namespace {

void one_is_woken_where_it_wants() {
  Sleepers sleepers;
  CHECK(!sleepers.is_wanted(5));
  sleepers.arrive(), sleepers.name(3);
  CHECK(!sleepers.is_wanted(2) && sleepers.is_wanted(3) && sleepers.is_wanted(4));
  sleepers.leave();
  CHECK(!sleepers.is_wanted(5));
  sleepers.arrive(), sleepers.name(1);  // the counter comes round
  CHECK(!sleepers.is_wanted(0xffffffff) && !sleepers.is_wanted(0) && sleepers.is_wanted(1));
}

// At whatever step of its own the second is, the first is woken.
void a_second_one_covers_up_nobody() {
  for (const std::uint32_t other : {2U, 6U}) {
    Sleepers sleepers;
    sleepers.arrive(), sleepers.name(3);
    sleepers.arrive();
    CHECK(sleepers.is_wanted(3));
    sleepers.name(other);
    CHECK(sleepers.is_wanted(3) && sleepers.is_wanted(2));
    sleepers.leave();  // whose target is reached
    CHECK(sleepers.is_wanted(6));
  }
}

// A counter that takes its next step only when all whose target is reached are up.
void nobody_waits_for_a_later_step() {
  constexpr unsigned kThreads = 4, kRounds = 400, kSteps = 8;
  Sleepers sleepers;
  Sleepers::Word counter{0xffffffff - kSteps * kRounds / 2}, up{0};
  std::vector<std::thread> threads;
  const std::uint32_t start = counter;
  for (unsigned who = 0; who < kThreads; ++who) {
    threads.emplace_back([&, who] {
      for (unsigned round = 0; round < kRounds; ++round) {
        sleepers.sleep(counter, start + round * kSteps + 1 + (who + round) % kThreads * 2);
        up.fetch_add(1);
      }
    });
  }
  for (unsigned step = 1; step <= kRounds * kSteps; ++step) {
    counter.store(start + step);
    sleepers.wake(counter, start + step);
    const unsigned before = (step - 1) / kSteps * kThreads, in_round = ((step - 1) % kSteps) / 2 + 1;
    for (unsigned tries = 0; up.load() < before + in_round; ++tries) {
      CHECK(tries < 600'000);  // a minute: others may want the processor, too
      torpor::thread::sleep_microseconds(100);
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  one_is_woken_where_it_wants();
  a_second_one_covers_up_nobody();
  nobody_waits_for_a_later_step();
  return 0;
}
