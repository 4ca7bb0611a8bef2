#include "table.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "../generated/real.h"
#include "entries.h"
#include "errno_kept.h"
#include "real_library.h"
#include "thread.h"

extern "C" {
__attribute__((visibility("hidden"))) CUresult torpor_answer_no_device();
__attribute__((visibility("hidden"))) CUresult torpor_answer_not_supported();
}

namespace torpor {
namespace {

struct Known {
  const void* address;
  Symbol symbol;
};

constinit std::atomic<bool> loaded{false};
constinit std::atomic<std::int32_t> publisher{0};  // process id of the thread that fills what follows
void* library = nullptr;
bool exported[kSymbols];
Known by_address[kSymbols];
std::uint32_t known_count = 0;

// A hash table at most half full, so that a look-up touches one line of memory.
struct Place {
  const void* address;  // null: empty
  Symbol symbol;        // the first of them
  std::uint16_t first;  // its place in `by_address`
  bool shared;          // by more than one symbol
};
constexpr std::uint32_t kPlaceBits = 11;
constexpr std::uint32_t kPlaces = 1U << kPlaceBits;
static_assert(kSymbols * 2 <= kPlaces && sizeof(Place) == 16);
alignas(64) Place places[kPlaces];

// The place of an address, or the empty one where it would be.
Place& place_of(const void* address) {
  std::uint64_t at = (reinterpret_cast<std::uint64_t>(address) * 0x9e3779b97f4a7c15U) >> (64 - kPlaceBits);
  while (places[at].address != address && places[at].address != nullptr) at = (at + 1) % kPlaces;
  return places[at];
}

void set_slot(std::uint32_t index, void* address) {
  __atomic_store_n(&torpor_real_slots[index], address, __ATOMIC_RELEASE);
}

void publish(void* handle, void* const (&addresses)[kSymbols]) {
  auto* const answer = handle != nullptr ? torpor_answer_not_supported : torpor_answer_no_device;
  void* const absent = reinterpret_cast<void*>(answer);
  library = handle;
  known_count = 0;
  for (std::uint32_t i = 0; i < kSymbols; ++i) {
    exported[i] = addresses[i] != nullptr;
    if (exported[i]) by_address[known_count++] = {addresses[i], static_cast<Symbol>(i)};
    set_slot(i, exported[i] ? addresses[i] : absent);
  }
  std::sort(by_address, by_address + known_count, [](const Known& one, const Known& other) {
    return one.address != other.address ? one.address < other.address : one.symbol < other.symbol;
  });
  std::fill(std::begin(places), std::end(places), Place{});
  for (std::uint32_t i = 0; i < known_count; ++i) {
    Place& place = place_of(by_address[i].address);
    const bool shared = place.address != nullptr;
    if (!shared) place = {by_address[i].address, by_address[i].symbol, static_cast<std::uint16_t>(i), false};
    place.shared = shared;
  }
}

}  // namespace

// Nothing is held across the loader's calls: a thread may get here inside a library's constructor, with the loader's
// lock. Threads that arrive together each ask the loader, and one of them publishes.
bool load_table() {
  if (loaded.load(std::memory_order_acquire)) return library != nullptr;
  const ErrnoKept kept;
  void* const handle = open_real_library();
  void* addresses[kSymbols];
  for (std::uint32_t i = 0; i < kSymbols; ++i) {
    addresses[i] = handle != nullptr ? ::dlsym(handle, kSymbolNames[i]) : nullptr;
  }
  ::dlerror();  // a failed search above must not show in the program's next dlerror()
  const std::int32_t process = ::getpid();
  while (!loaded.load(std::memory_order_acquire)) {
    std::int32_t other = publisher.load(std::memory_order_relaxed);
    // A publisher of another process is a thread of the parent that forked us in the middle of it.
    if (other != process && publisher.compare_exchange_strong(other, process, std::memory_order_acq_rel)) {
      publish(handle, addresses);
      loaded.store(true, std::memory_order_release);
    } else {
      thread::sleep_microseconds(20);
    }
  }
  return library != nullptr;
}

Symbol symbol_at(const void* address, const char* base) {
  const Place& place = place_of(address);
  if (place.address == nullptr) return Symbol::kCount;
  if (!place.shared) [[likely]] return place.symbol;
  const Known* const at = &by_address[place.first];
  const Known* const end = by_address + known_count;
  const std::size_t length = base != nullptr ? std::strlen(base) : 0;
  for (const Known* same = at; length != 0 && same != end && same->address == address; ++same) {
    const char* name = kSymbolNames[static_cast<std::uint32_t>(same->symbol)];
    if (std::strncmp(name, base, length) == 0 && (name[length] == '\0' || name[length] == '_')) return same->symbol;
  }
  return at->symbol;
}

void redirect(Symbol symbol, void* address) {
  set_slot(static_cast<std::uint32_t>(symbol), address);
  entries::aim(symbol);
}

void* real_library() { return library; }

bool real::has(Symbol symbol) { return load_table() && exported[static_cast<std::uint32_t>(symbol)]; }

}  // namespace torpor
