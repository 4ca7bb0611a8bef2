#include "answers.h"

#include <pthread.h>

#include <cstdlib>
#include <string_view>

#include "../prim/log.h"
#include "queue.h"

namespace torpor::vm {
namespace answers {

// Every question reads these, so what is counted while they are answered lies elsewhere.
alignas(64) constinit std::atomic<State> state{State::unread};
alignas(64) constinit std::atomic<std::uint64_t> epochs[kGroups]{};
constinit thread_local Thread thread __attribute__((tls_model("initial-exec"))) = {};

namespace {

alignas(64) constinit std::atomic<std::uint64_t> answered{0};
constinit std::atomic<std::uint64_t> wrong{0};
constinit State before_pause = State::off;  // the control thread's

// Gives the table back with its thread.
struct Owner {
  Owner() = default;
  ~Owner() {
    std::free(thread.entries);
    thread.entries = nullptr;
    thread.over = true;
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  void take(Entry* entries) { thread.entries = entries; }
};

}  // namespace

Entry* make_entries() {
  if (thread.over) return nullptr;
  static thread_local Owner owner;
  owner.take(static_cast<Entry*>(std::calloc(kEntries, sizeof(Entry))));
  return thread.entries;
}

State read_state() {
  const char* const value = std::getenv("TORPOR_VM");
  const std::string_view setting = value != nullptr ? value : "";
  State chosen = State::off;
  for (const std::string_view level : {"answers", "defer", "full", "always", "always-full"}) {
    if (setting == level) chosen = State::on;
  }
  if (setting == "check") chosen = State::checking;
  // A forked child of a process that uses the driver cannot use it, and is told so by the driver.
  if (chosen != State::off && ::pthread_atfork(nullptr, nullptr, give_up) != 0) chosen = State::off;
  State unread = State::unread;
  state.compare_exchange_strong(unread, chosen);
  return state.load(std::memory_order_relaxed);
}

void count_hits(std::uint64_t hits) { answered.fetch_add(hits, std::memory_order_relaxed); }

void compare(Symbol symbol, bool same) {
  answered.fetch_add(1, std::memory_order_relaxed);
  if (same) return;
  if (wrong.fetch_add(1, std::memory_order_relaxed) < 8) {
    log::error("%s would have been answered wrongly", kSymbolNames[static_cast<std::uint32_t>(symbol)]);
  }
}

void give_up() { state.store(State::off, std::memory_order_relaxed); }

Totals totals() { return {answered.load(std::memory_order_relaxed), wrong.load(std::memory_order_relaxed)}; }

}  // namespace answers

void pause_answers() {
  answers::before_pause = answers::state.load(std::memory_order_relaxed);
  if (answers::before_pause >= answers::State::on) answers::state.store(answers::State::paused, std::memory_order_seq_cst);
}

void resume_answers() {
  // The threads' own epochs are theirs, but every question depends on something else besides.
  for (auto& epoch : answers::epochs) epoch.fetch_add(1);
  auto paused = answers::State::paused;
  answers::state.compare_exchange_strong(paused, answers::before_pause);
}

}  // namespace torpor::vm
