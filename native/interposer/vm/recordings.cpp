#include "recordings.h"

#include <array>
#include <atomic>

namespace torpor::vm::recordings {
namespace {

struct Record {
  CUevent event = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  std::uint64_t serial = 0;  // 0: nothing is known here
  std::uint64_t sight = 0;   // how often sight was lost before
  std::uint64_t number = 0;  // of the item
  bool awaited = false, past = false;
};

constinit std::atomic<std::uint64_t> times_lost{0};
constinit std::uint64_t last_serial = 0;
// One place for an event; another one may take it.
constinit std::array<Record, 256> table{};

Record& place_of(CUevent event) {
  static_assert(table.size() == std::size_t{1} << (64 - 56));
  return table[(reinterpret_cast<std::uint64_t>(event) * 0x9e3779b97f4a7c15U) >> 56];
}

Record* find(CUevent event) {
  Record& record = place_of(event);
  const bool known = record.event == event && record.serial != 0 &&
                     record.sight == times_lost.load(std::memory_order_acquire);
  return known ? &record : nullptr;
}

// Whatever is submitted to it is a barrier between other streams, a wait or a record, too.
bool is_barrier(CUstream stream) { return stream == nullptr || stream == CU_STREAM_LEGACY; }

}  // namespace

void lose_sight() { times_lost.fetch_add(1, std::memory_order_acq_rel); }

std::optional<std::uint64_t> record(CUevent event, CUcontext context, CUstream stream, std::uint64_t number) {
  std::optional<std::uint64_t> before;
  if (const Record* const known = find(event); known != nullptr && !known->awaited && !is_barrier(known->stream)) {
    before = known->number;
  }
  place_of(event) = {event, context, stream, ++last_serial, times_lost.load(std::memory_order_acquire), number, false, false};
  return before;
}

bool is_past(CUevent event, CUcontext context, CUstream stream) {
  Record* const known = find(event);
  if (known == nullptr) return false;
  if (!is_barrier(stream) && (known->past || (known->stream == stream && known->context == context))) return true;
  known->awaited = true;
  return false;
}

std::uint64_t latest(CUevent event) {
  const Record* const known = find(event);
  return known != nullptr ? known->serial : 0;
}

void happened(CUevent event, std::uint64_t serial) {
  if (Record* const known = find(event); known != nullptr && known->serial == serial) known->past = true;
}

void forget_event(std::uint64_t handle) {
  Record& record = place_of(reinterpret_cast<CUevent>(handle));
  if (reinterpret_cast<std::uint64_t>(record.event) == handle) record.serial = 0;
}

void forget_stream(CUstream stream) {
  for (Record& record : table) {
    if (record.stream == stream) record.serial = 0;
  }
}

}  // namespace torpor::vm::recordings
