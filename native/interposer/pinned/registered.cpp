#include "registered.h"

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include "../arena/arena.h"
#include "../generated/real.h"
#include "../hooks/residual.h"
#include "../prim/errno_kept.h"
#include "../prim/fork_hold.h"
#include "../prim/thread.h"
#include "../prim/undisturbed.h"
#include "exchange.h"
#include "forks.h"
#include "place.h"
#include "worth.h"

namespace torpor::pinned::registered {
namespace {

constexpr unsigned int kFlags =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
// What is less is soon saved by CRIU, and a program that registers buffers in its loop should not wait for two copies of each.
constexpr std::uint64_t kSmallest = 32ULL << 20;

// `passing` while a call of the driver's decides whether it is registered.
enum class State { passing, registered, left };

struct Entry {
  std::uintptr_t base = 0;  // as the program has it
  std::size_t size = 0;
  State state = State::passing;
  bool in_file = false;
  Span piece;  // its whole pages
  Pages advice = Pages::usual;
  std::uint64_t began_ns = 0, ready_ns = 0;  // of the exchange
};

// Everything that is registered, and what has remained in a file after that. `lock` is held while memory is exchanged
// and across a fork, but never in the driver: what it waits for may be a fork.
struct Table {
  std::mutex lock;
  std::condition_variable passed;
  std::multimap<std::uintptr_t, Entry> entries;
  std::atomic<std::size_t> files{0};
  std::atomic<std::uint64_t> bytes{0};  // in those
  Worth worth;
  std::size_t largest = 0;  // of all entries that there were
};

// Never destroyed: threads of the program may still unregister while the process exits.
Table& table() {
  static auto* const instance = new Table;
  return *instance;
}

// The lock, and no handler of the program's in this thread, which might want it, too.
struct Held {
  Undisturbed undisturbed;
  std::unique_lock<std::mutex> guard{table().lock};
};

using Place = std::multimap<std::uintptr_t, Entry>::iterator;

bool overlap(const Entry& entry, std::uintptr_t base, std::size_t size) {
  return base - entry.base < entry.size || entry.base - base < size;
}

// Under the lock: calls `visit` with each entry that has some of these bytes, until it says no. It may erase that
// entry.
template <typename Visit>
void each_overlapping(std::uintptr_t base, std::size_t size, Visit visit) {
  Table& t = table();
  const std::uintptr_t first = base > t.largest ? base - t.largest : 0;
  const auto end = t.entries.end();
  for (auto it = t.entries.lower_bound(first); it != end && (it->first < base || it->first - base < size);) {
    const Place here = it++;
    if (overlap(here->second, base, size) && !visit(here)) return;
  }
}

bool any_overlapping(std::uintptr_t base, std::size_t size, State state) {
  bool found = false;
  each_overlapping(base, size, [&](Place place) { return !(found = place->second.state == state); });
  return found;
}

void in_file(Entry& entry, bool now) {
  if (entry.in_file == now) return;
  entry.in_file = now;
  Table& t = table();
  if (now) {
    ++t.files;
    t.bytes += entry.piece.size();
  } else {
    --t.files;
    t.bytes -= entry.piece.size();
  }
}

// Then it is not exchanged: those that do it look at what lies on this thread's stack, and would wait for themselves. Nor would
// who waits for this thread to end hear of that: the kernel says so by the page.
bool holds_this_thread(const Span& piece) {
  constexpr std::uint64_t kBelow = 64 << 10;  // where the frames of the exchange will be
  const auto stack = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  const auto storage = reinterpret_cast<std::uint64_t>(&errno);
  return piece.overlaps(stack - kBelow, stack + 1) || piece.overlaps(storage, storage + 1);
}

// Under the lock: back to private memory, and out of the table unless some of it remains in the file.
void dissolve(Place place) {
  Entry& entry = place->second;
  const std::uint64_t start = thread::monotonic_nanoseconds();
  if (entry.in_file && !holds_this_thread(entry.piece) && forks::children_are_apart()) {
    const bool done = out_of_file(entry.piece, entry.advice);
    if (done) in_file(entry, false);
    const std::uint64_t back = thread::monotonic_nanoseconds() - start;
    table().worth.undone(done ? entry.ready_ns - entry.began_ns : 0, start - entry.ready_ns, back);
  }
  entry.state = State::left;
  if (!entry.in_file) table().entries.erase(place);
}

std::uint64_t processor_ns() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(used.tv_nsec);
}

// Under the lock: a new entry, which takes over from one that has remained in its file after the same was registered
// before.
Place entered(std::uintptr_t base, std::size_t size, const Span& piece) {
  Table& t = table();
  if (size > t.largest) t.largest = size;
  for (auto [it, end] = t.entries.equal_range(base); it != end; ++it) {
    if (it->second.state != State::left || it->second.size != size) continue;
    it->second.state = State::passing;
    return it;
  }
  return t.entries.emplace(base, Entry{base, size, State::passing, false, piece, Pages::usual});
}

// Under the lock: what was registered of these bytes no longer is, as the driver has taken them again. A context may be
// gone. The same memory is still in its file.
void outlived(Place by) {
  Entry& mine = by->second;
  each_overlapping(mine.base, mine.size, [&](Place place) {
    Entry& other = place->second;
    if (place == by || other.state != State::registered) return true;
    if (other.in_file && !mine.in_file && other.base == mine.base && other.size == mine.size) {
      mine.advice = other.advice;
      in_file(mine, true);
      in_file(other, false);
    }
    other.state = State::left;
    if (!other.in_file) table().entries.erase(place);
    return true;
  });
}

// Under the lock: puts the memory into a file, all or part of it, or leaves it as it is.
void exchange(Entry& entry) {
  Table& t = table();
  if (!t.worth.more() || holds_this_thread(entry.piece) || !nothing_pinned() || !may_exchange()) return;
  const std::uint64_t begun = processor_ns();
  Spans mappings;
  const bool plain = is_plain(entry.piece, mappings, entry.advice);
  t.worth.looked(processor_ns() - begun);
  if (!plain) return;  // it may have remained in a file before
  const std::uint64_t start = thread::monotonic_nanoseconds();
  in_file(entry, true);
  const bool done = into_file(entry.piece, mappings);
  if (!done && out_of_file(entry.piece, entry.advice)) in_file(entry, false);
  entry.began_ns = start;
  entry.ready_ns = thread::monotonic_nanoseconds();
  const std::uint64_t took = entry.ready_ns - start;
  done ? t.worth.exchanged(took) : t.worth.failed(took);
}

// Where there are no entries, and where this thread has the lock already.
bool is_the_drivers() { return arena::Arena::get() == nullptr || forks::under_way(); }

// Whether it is for us at all. What is wrong with a call is the driver's to say.
bool is_wanted(const Call& call, const Span& piece) {
  if (piece.start >= piece.end || piece.size() < kSmallest || (call.flags & ~kFlags) != 0 || active_captures() > 0) return false;
  if (!is_worth_a_file(piece.size(), count() + pinned::count()) || !place_usable() || !forks::watched()) return false;
  contexts::Context context;
  if (contexts::current(context) != CUDA_SUCCESS) return false;
  unsigned int known = 0;
  return real::cuMemHostGetFlags(&known, call.base) != CUDA_SUCCESS;
}

// Before the driver is asked to register: an entry for it, with its memory in a file where that is `wanted` and possible.
// What another thread registers or unregisters right now is settled first: memory must not change its pages after that.
Place begun(const Call& call, const Span& piece, bool wanted) {
  const auto base = reinterpret_cast<std::uintptr_t>(call.base);
  Held held;
  table().passed.wait(held.guard, [&] { return !any_overlapping(base, call.size, State::passing); });
  const bool known = any_overlapping(base, call.size, State::registered);
  const Place place = entered(base, call.size, piece);
  if (wanted && !known) exchange(place->second);
  return place;
}

// Before it is asked to unregister: what is registered there.
std::optional<Place> passing(std::uintptr_t base) {
  const Held held;
  for (auto [it, end] = table().entries.equal_range(base); it != end; ++it) {
    if (it->second.state != State::registered) continue;
    it->second.state = State::passing;
    return it;
  }
  return std::nullopt;
}

// After that.
template <typename Settle>
void ended(Place place, Settle settle) {
  const Held held;
  settle(place->second);
  table().passed.notify_all();
}

CUresult enrol(const Call& call, const Span& piece, bool wanted) {
  const Place place = begun(call, piece, wanted);
  const CUresult result = call.driver(call.base, call.size, call.flags);
  bool refused = false;
  ended(place, [&](Entry& entry) {
    if (result == CUDA_SUCCESS) {
      outlived(place);
      entry.state = State::registered;
    } else if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED && entry.in_file) {
      entry.state = State::left;  // part of it, as it is now, by somebody that we know nothing of
    } else {
      refused = wanted && entry.in_file;
      dissolve(place);
    }
  });
  // What it refuses as a file it may take as the memory that it was.
  return refused ? enrol(call, piece, false) : result;
}

}  // namespace

std::size_t count() { return table().files.load(std::memory_order_relaxed); }

CUresult enrol(const Call& call) {
  const auto base = reinterpret_cast<std::uintptr_t>(call.base);
  if (is_the_drivers() || call.size == 0 || base + call.size < base) {
    return call.driver(call.base, call.size, call.flags);
  }
  const ErrnoKept kept;
  const Span piece{page_after(base), page_before(base + call.size)};
  return enrol(call, piece, is_wanted(call, piece));
}

CUresult withdraw(void* base) {
  if (is_the_drivers()) return real::cuMemHostUnregister(base);
  const ErrnoKept kept;
  const std::optional<Place> place = passing(reinterpret_cast<std::uintptr_t>(base));
  const CUresult result = real::cuMemHostUnregister(base);
  if (!place) return result;
  ended(*place, [&](Entry& entry) {
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) {
      dissolve(*place);
    } else {
      entry.state = State::registered;
    }
  });
  return result;
}

// By what is mapped: memory that was freed without being unregistered is in the table, and no more in a file. Without the
// lock: who asks is the control thread, and an exchange may take seconds.
Totals totals() {
  DeviceName device;
  if (arena::Arena::get() == nullptr || count() == 0 || !place_device(device)) return {};
  const ForkHold hold;
  Lines lines("/proc/self/maps");
  Mapping mapping;
  std::uint64_t files = 0, bytes = 0, read = 0, last = 0;
  for (std::string_view line; lines.next(line); ++read) {
    if (!read_mapping(line, mapping) || mapping.device != device.data() || pinned::holding(mapping.span.start)) continue;
    if (mapping.inode != last) ++files;  // what is mapped of one file lies together
    last = mapping.inode;
    bytes += mapping.span.size();
  }
  if (read == 0) return {count(), table().bytes.load(std::memory_order_relaxed)};  // no descriptor left
  return {files, bytes};
}

void hold_for_fork() { table().lock.lock(); }

std::uint64_t bytes_held() { return table().bytes.load(std::memory_order_relaxed); }

bool leave_files() {
  for (auto& [base, entry] : table().entries) {
    if (!entry.in_file) continue;
    if (!leave_file(entry.piece, entry.advice)) return false;
    in_file(entry, false);
  }
  return true;
}

void release_after_fork() { table().lock.unlock(); }

}  // namespace torpor::pinned::registered
