#include "event_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <deque>
#include <map>
#include <utility>

#include "../control/listener.h"
#include "../prim/errno_kept.h"
#include "../prim/log.h"
#include "../prim/no_size_signal.h"

namespace torpor::share::event_table {
namespace {

constexpr std::uint64_t kPlaces = 1ULL << 17;
constexpr std::size_t kBytes = kPlaces * sizeof(EventWord);  // of which the system gives what is written to

struct Own {
  EventWord* words = nullptr;
  std::uint64_t used = 1;
  std::deque<std::uint64_t> given;  // the longest ago first: peers may still look at the last ones
};

Own& own_table() {
  static auto* const instance = new Own;
  return *instance;
}

// Apart from the rest, for the thread that answers and for forked children.
constinit std::atomic<int> memory{-1};

// A process's table is mapped once, and for good.
std::map<std::pair<std::int64_t, std::uint64_t>, EventWord*>& others() {
  static auto* const instance = new std::map<std::pair<std::int64_t, std::uint64_t>, EventWord*>;
  return *instance;
}

EventWord* mapped(int descriptor) {
  struct stat found{};
  if (::fstat(descriptor, &found) != 0 || found.st_size != static_cast<off_t>(kBytes)) return nullptr;
  void* const at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (at == MAP_FAILED) return nullptr;
  ::madvise(at, kBytes, MADV_DONTFORK);
  return static_cast<EventWord*>(at);
}

bool make() {
  const ErrnoKept kept;
  const NoSizeSignal quiet;
  Descriptor made = control::moved_up(Descriptor(::memfd_create("torpor-events", MFD_CLOEXEC)));
  const std::uint64_t mark = arena::own_name().nonce;
  if (!made || ::ftruncate(made.get(), kBytes) != 0) return false;
  if (::pwrite(made.get(), &mark, sizeof mark, 0) != sizeof mark) return false;
  own_table().words = mapped(made.get());
  if (own_table().words == nullptr) return false;
  memory = made.release();
  return true;
}

// The program may have closed it, and have another file there. A restored process has another inode, so the first word, which
// no event has, is looked at.
bool is_table(int descriptor) {
  struct stat found{};
  std::uint64_t mark = 0;
  return descriptor >= 0 && ::fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) &&
         found.st_size == static_cast<off_t>(kBytes) && ::pread(descriptor, &mark, sizeof mark, 0) == sizeof mark &&
         mark == arena::own_name().nonce;
}

}  // namespace

std::optional<std::uint64_t> take() {
  Own& table = own_table();
  if (table.words == nullptr && !make()) return std::nullopt;
  if (table.used < kPlaces) return table.used++;
  if (table.given.empty()) return std::nullopt;
  const std::uint64_t place = table.given.front();
  table.given.pop_front();
  table.words[place].store({});
  return place;
}

void give(std::uint64_t place) { own_table().given.push_back(place); }

EventWord& own(std::uint64_t place) { return own_table().words[place]; }

EventWord* of(const arena::SharedName& maker, const Descriptor& descriptor, std::uint64_t place) {
  const ErrnoKept kept;
  if (place == 0 || place >= kPlaces) return nullptr;
  const std::pair name(maker.pid, maker.nonce);
  auto known = others().find(name);
  if (known == others().end()) {
    EventWord* const words = descriptor ? mapped(descriptor.get()) : nullptr;
    if (words == nullptr) return nullptr;
    known = others().emplace(name, words).first;
  }
  return known->second + place;
}

Descriptor descriptor() {
  const ErrnoKept kept;
  if (!is_table(memory)) {
    log::error("the program closed what tells peers of its events; they cannot open further ones");
    return {};
  }
  Descriptor copy(::fcntl(memory, F_DUPFD_CLOEXEC, memory.load()));
  return is_table(copy.get()) ? std::move(copy) : Descriptor();
}

void close_in_child() {
  if (const int ours = memory.exchange(-1); is_table(ours)) ::close(ours);
}

}  // namespace torpor::share::event_table
