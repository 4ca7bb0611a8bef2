// Answering questions whose answer cannot have changed (`--vm answers`), in a few nanoseconds.
//
// Each thread keeps what it was told in a small table, with the epochs of everything that the answer depends on. A call that
// changes something raises the epoch, before and after it: afterwards no thread finds the old answer.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "../../abi/cuda_driver.h"
#include "../generated/symbols.h"
#include "policy.h"
#include "queue.h"

namespace torpor::vm {

enum class Group : std::uint32_t { thread, context, function, limit, stream, capture };
inline constexpr std::uint32_t kGroups = 6;

namespace answers {

enum class State : std::uint32_t { unread, off, paused, on, checking };

struct Entry {
  std::uint64_t stamp;  // 0: nothing here
  std::uint64_t symbol;
  std::array<std::uint64_t, 4> asked;
  std::array<std::uint64_t, 2> told;
};
static_assert(sizeof(Entry) == 64);

inline constexpr std::uint32_t kEntries = 128;

// Small, since a preloaded library's thread-local memory is every thread's. `entries` is made at the first question.
struct Thread {
  std::uint64_t epoch;  // of Group::thread
  std::uint64_t hits;
  Entry* entries;
  bool over;  // the thread ends
};

extern std::atomic<State> state;
extern std::atomic<std::uint64_t> epochs[kGroups];
extern constinit thread_local Thread thread __attribute__((tls_model("initial-exec")));

State read_state();
// The calling thread's table; null when there is no memory, or the thread ends.
Entry* make_entries();
void count_hits(std::uint64_t hits);
// In `checking`: what the driver says of the same question. Reports an answer of ours that differs.
void compare(Symbol symbol, bool same);

// No answers any more in this process.
void give_up();

struct Totals {
  std::uint64_t answered = 0;  // or, when checking, compared
  std::uint64_t wrong = 0;     // found when checking
};
Totals totals();

}  // namespace answers

// Whether questions may be answered; by TORPOR_VM=answers and everything beyond. TORPOR_VM=check answers nothing, but asks the
// driver each time and counts where we would have been wrong.
[[gnu::always_inline]] inline bool answering() {
  const answers::State now = answers::state.load(std::memory_order_relaxed);
  if (now == answers::State::off) [[likely]] return false;
  return now >= answers::State::on || (now == answers::State::unread && answers::read_state() >= answers::State::on);
}

// To be called before and after a call that changes what answers depend on.
template <Group... kChanged>
void changed() {
  // Before the first question nobody keeps an answer.
  if (answers::state.load(std::memory_order_relaxed) < answers::State::paused) [[likely]] return;
  ((kChanged == Group::thread ? static_cast<void>(++answers::thread.epoch)
                              : static_cast<void>(answers::epochs[static_cast<std::uint32_t>(kChanged)].fetch_add(1))),
   ...);
}

// While the job is frozen the driver answers. Everything may have changed when it wakes.
void pause_answers();
void resume_answers();

// Epochs only grow, so their sum stays the same as long as each of them does.
template <Group... kOf>
std::uint64_t stamp() {
  return 1 + ((kOf == Group::thread ? answers::thread.epoch
                                    : answers::epochs[static_cast<std::uint32_t>(kOf)].load(std::memory_order_acquire)) +
              ...);
}

// What a question is asked with.
template <typename... Words>
constexpr std::array<std::uint64_t, sizeof...(Words)> asked_with(Words... words) {
  return {words...};
}

// Two places for each question: the one that was asked for last, and the one before.
inline answers::Entry* places_of(answers::Entry* table, std::uint64_t symbol, std::span<const std::uint64_t> asked) {
  std::uint64_t hash = (symbol + 1) * 0x9e3779b97f4a7c15U;
  for (const std::uint64_t word : asked) hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  static_assert(answers::kEntries == 2U << (64 - 58));
  return &table[hash >> 58 << 1];
}

template <std::size_t kWords>
bool is_here(const answers::Entry& entry, std::uint64_t stamp, std::uint64_t symbol,
             const std::array<std::uint64_t, kWords>& asked) {
  if (entry.stamp != stamp || entry.symbol != symbol) return false;
  for (std::size_t i = 0; i < kWords; ++i) {
    if (entry.asked[i] != asked[i]) return false;
  }
  return true;
}

template <std::size_t kWords>
void put(answers::Entry* places, std::uint64_t stamp, std::uint64_t symbol, const std::array<std::uint64_t, kWords>& asked,
         const std::array<std::uint64_t, 2>& told) {
  places[1] = places[0];
  places[0] = {stamp, symbol, {}, told};
  for (std::size_t i = 0; i < kWords; ++i) places[0].asked[i] = asked[i];
}

template <Symbol kSymbol, Group... kOf, std::size_t kWords, typename Real, typename... Results>
CUresult answer(const std::array<std::uint64_t, kWords>& asked, Real real, Results*... results) {
  static_assert(kWords <= 4 && sizeof...(Results) <= 2 && ((sizeof(Results) <= 8) && ...));
  if (!answering() || ((results == nullptr) || ...)) return real();
  answers::Entry* table = answers::thread.entries;
  if (table == nullptr && (table = answers::make_entries()) == nullptr) return real();
  const std::uint64_t now = stamp<kOf...>();
  constexpr auto symbol = static_cast<std::uint64_t>(kSymbol);
  answers::Entry* const places = places_of(table, symbol, asked);
  const answers::Entry& entry = is_here(places[0], now, symbol, asked) ? places[0] : places[1];
  const bool known = &entry == &places[0] || is_here(entry, now, symbol, asked);
  if (known && answers::state.load(std::memory_order_relaxed) == answers::State::on) [[likely]] {
    std::size_t i = 0;
    (std::memcpy(results, &entry.told[i++], sizeof *results), ...);
    if ((++answers::thread.hits & 63) == 0) answers::count_hits(64);
    return CUDA_SUCCESS;
  }
  const CUresult result = real();
  std::array<std::uint64_t, 2> told{};
  std::size_t i = 0;
  if (result == CUDA_SUCCESS) (std::memcpy(&told[i++], results, sizeof *results), ...);
  if (known) answers::compare(kSymbol, result == CUDA_SUCCESS && told == entry.told);
  if (result == CUDA_SUCCESS && !known) put(places, now, symbol, asked, told);
  return result;
}

// Whether the calling thread has kept() that a call of the symbol with these words was left out, and nothing of what that
// depends on has changed since. Always false where nothing is answered.
template <Symbol kSymbol, Group... kOf, std::size_t kWords>
bool keeps(const std::array<std::uint64_t, kWords>& asked) {
  constexpr auto symbol = static_cast<std::uint64_t>(kSymbol);
  answers::Entry* const table = answers::thread.entries;
  if (table == nullptr || answers::state.load(std::memory_order_relaxed) != answers::State::on) return false;
  const std::uint64_t now = stamp<kOf...>();
  const answers::Entry* const places = places_of(table, symbol, asked);
  return is_here(places[0], now, symbol, asked) || is_here(places[1], now, symbol, asked);
}

// `at`: the stamp<kOf...>() from before that was found out.
template <Symbol kSymbol, std::size_t kWords>
void keep(std::uint64_t at, const std::array<std::uint64_t, kWords>& asked) {
  constexpr auto symbol = static_cast<std::uint64_t>(kSymbol);
  if (!answering()) return;
  answers::Entry* table = answers::thread.entries;
  if (table == nullptr && (table = answers::make_entries()) == nullptr) return;
  put(places_of(table, symbol, asked), at, symbol, asked, {});
}

// Sets what the question `kAsks` asks for without arguments, in the calling thread: no call where the answer would be `value`
// already (and calls may be left out: `--vm defer`).
template <Symbol kAsks, Group... kOf, typename Real>
CUresult set_unless_set(std::uint64_t value, Real real) {
  constexpr auto symbol = static_cast<std::uint64_t>(kAsks);
  const auto knowing = [] { return answers::state.load(std::memory_order_relaxed) == answers::State::on; };
  if (knowing() && in_use() && value != 0 && answers::thread.entries != nullptr) {
    const answers::Entry* const places = places_of(answers::thread.entries, symbol, {});
    for (const answers::Entry& entry : std::span(places, 2)) {
      if (entry.stamp != stamp<kOf...>() || entry.symbol != symbol || entry.told[0] != value) continue;
      count_dropped(Drop::setting);
      return CUDA_SUCCESS;
    }
  }
  changed<Group::thread>();
  const std::uint64_t before = stamp<kOf...>();
  const CUresult result = real();
  changed<Group::thread>();
  // What another thread changed meanwhile makes the stamp another one than the next. Zero may bring back what was before.
  if (result == CUDA_SUCCESS && value != 0 && knowing() && answers::thread.entries != nullptr) {
    places_of(answers::thread.entries, symbol, {})[0] = {before + 1, symbol, {}, {value, 0}};
  }
  return result;
}

// Sets something of a function, by `change`, which notes that: no call where this thread's last one of the symbol with these words
// still holds.
template <Symbol kSymbol, Group... kOf, std::size_t kWords, typename Change>
CUresult set_unless_last_set(const std::array<std::uint64_t, kWords>& asked, Change change) {
  if (!answering()) return change();
  if (keeps<kSymbol, kOf...>(asked)) {
    count_dropped(Drop::setting);
    return CUDA_SUCCESS;
  }
  const std::uint64_t before = stamp<kOf...>();
  const CUresult result = change();
  // It raised one epoch twice. What another thread changed meanwhile makes the stamp another one than the next.
  if (result == CUDA_SUCCESS) keep<kSymbol>(before + 2, asked);
  return result;
}

}  // namespace torpor::vm
