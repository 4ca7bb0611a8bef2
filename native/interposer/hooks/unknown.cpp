#include "unknown.h"

#include <cstring>

#include "../prim/spin_lock.h"

namespace torpor {
namespace {

constinit UnknownSymbols table{};
constinit SpinLock lock;

}  // namespace

const UnknownSymbols& unknown_symbols() { return table; }

void count_unknown(const char* name) {
  const SpinLock::Held held(lock);
  const std::uint32_t count = table.count.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (std::strncmp(table.names[i], name, UnknownSymbols::kLongest) == 0) return;
  }
  if (count == UnknownSymbols::kKept) {
    table.lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::strncpy(table.names[count], name, UnknownSymbols::kLongest);
  table.count.store(count + 1, std::memory_order_release);
}

}  // namespace torpor
