// The software GPU's CUPTI: what kernel timing uses of the activity interface, with records as CUPTI lays them out.
//
// One buffer at a time, handed out when it is full, in the thread whose work filled it, or by cuptiActivityFlushAll.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "activity.h"

namespace {

using namespace sim;

enum Status { done = 0, invalid_parameter = 1, invalid_operation = 7, not_initialized = 15, no_more_records = 12 };
enum Kind : uint32_t { copy = 1, fill = 2, kernel = 3, concurrent_kernel = 10, peer_copy = 22 };

struct KernelRecord {
  uint32_t kind;
  uint8_t before[12];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t shape[8];
  uint32_t local[2], correlation;
  int64_t grid;
  const char* name;
  uint64_t rest[4];
};
static_assert(offsetof(KernelRecord, device) == 40 && offsetof(KernelRecord, name) == 104);

struct CopyRecord {
  uint32_t kind;
  uint8_t direction, from, to, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint64_t rest[3];
};

struct FillRecord {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint64_t rest[2];
};

using Requested = void (*)(uint8_t**, size_t*, size_t*);
using Completed = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);

struct State {
  std::mutex mutex;
  Requested requested = nullptr;
  Completed completed = nullptr;
  std::set<uint32_t> kinds;
  std::set<std::string> names;  // of kernels; records point into it
  uint8_t* buffer = nullptr;
  size_t size = 0, used = 0, dropped = 0;
};

State& state() {
  static State* instance = new State;  // threads of streams may outlive static destruction
  return *instance;
}

size_t size_of(uint32_t kind) {
  return kind == concurrent_kernel ? sizeof(KernelRecord) : kind == fill ? sizeof(FillRecord) : sizeof(CopyRecord);
}

// Gives the buffer back; the caller's lock is free meanwhile, since the other side may call us.
void hand_out(std::unique_lock<std::mutex>& lock) {
  State& self = state();
  uint8_t* const buffer = self.buffer;
  const size_t size = self.size, used = self.used;
  self.buffer = nullptr;
  self.size = self.used = 0;
  if (buffer == nullptr) return;
  lock.unlock();
  self.completed(nullptr, 0, buffer, size, used);
  lock.lock();
}

template <typename Record>
void keep(const Record& record) {
  State& self = state();
  std::unique_lock lock(self.mutex);
  if (self.kinds.count(record.kind) == 0) return;
  if (self.buffer != nullptr && self.used + sizeof record > self.size) hand_out(lock);
  if (self.buffer == nullptr) {
    size_t most = 0;
    self.requested(&self.buffer, &self.size, &most);
    self.used = 0;
  }
  if (self.buffer == nullptr || self.used + sizeof record > self.size) {
    ++self.dropped;
    return;
  }
  std::memcpy(self.buffer + self.used, &record, sizeof record);
  self.used += sizeof record;
}

const char* lasting(const char* name) {
  std::lock_guard lock(state().mutex);
  return state().names.insert(name).first->c_str();
}

uint8_t direction(const Ran& ran) {
  const bool from_host = ran.from == Place::host, to_host = ran.to == Place::host;
  if (from_host) return to_host ? 9 : 1;
  if (to_host) return 2;
  return ran.from == ran.to ? 8 : 10;
}

void hear(const Ran& ran) {
  const auto device = static_cast<uint32_t>(ran.ordinal);
  if (ran.kind == ActivityKind::kernel) {
    KernelRecord record{};
    record.kind = concurrent_kernel;
    record.start = ran.begun;
    record.end = ran.ended;
    record.device = device;
    record.name = lasting(ran.name);
    keep(record);
  } else if (ran.kind == ActivityKind::copy) {
    CopyRecord record{};
    record.direction = direction(ran);
    record.kind = record.direction == 10 ? peer_copy : copy;
    record.bytes = ran.bytes;
    record.start = ran.begun;
    record.end = ran.ended;
    record.device = device;
    keep(record);
  } else {
    FillRecord record{};
    record.kind = fill;
    record.bytes = ran.bytes;
    record.start = ran.begun;
    record.end = ran.ended;
    record.device = device;
    keep(record);
  }
}

// The driver of this process, through whatever is in front of it.
const ActivityTable* driver_table() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  auto* const find = reinterpret_cast<CUresult (*)(const void**, const CUuuid*)>(dlsym(driver, "cuGetExportTable"));
  const void* table = nullptr;
  const CUuuid id = activity_table_id;
  if (find == nullptr || find(&table, &id) != CUDA_SUCCESS) return nullptr;
  return static_cast<const ActivityTable*>(table);
}

}  // namespace

#define CUPTI extern "C" __attribute__((visibility("default"))) int

CUPTI cuptiActivityRegisterCallbacks(Requested requested, Completed completed) {
  if (requested == nullptr || completed == nullptr) return invalid_parameter;
  State& self = state();
  std::lock_guard lock(self.mutex);
  self.requested = requested;
  self.completed = completed;
  return done;
}

CUPTI cuptiActivityEnable(uint32_t kind) {
  if (kind != copy && kind != fill && kind != concurrent_kernel && kind != peer_copy) return invalid_parameter;
  const ActivityTable* const driver = driver_table();
  if (driver == nullptr || driver->size < sizeof *driver) return not_initialized;
  {
    State& self = state();
    std::lock_guard lock(self.mutex);
    if (self.requested == nullptr) return invalid_operation;
    self.kinds.insert(kind);
  }
  driver->listen(hear);
  return done;
}

CUPTI cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  if (buffer == nullptr || record == nullptr) return invalid_parameter;
  uint32_t kind = 0;
  if (*record == nullptr) *record = buffer;
  else {
    std::memcpy(&kind, *record, sizeof kind);
    *record += size_of(kind);
  }
  if (*record < buffer + valid) return done;
  *record = nullptr;
  return no_more_records;
}

CUPTI cuptiActivityFlushAll(uint32_t) {
  std::unique_lock lock(state().mutex);
  if (state().completed == nullptr) return invalid_operation;
  hand_out(lock);
  return done;
}

CUPTI cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* count) {
  if (count == nullptr) return invalid_parameter;
  std::lock_guard lock(state().mutex);
  *count = state().dropped;
  state().dropped = 0;
  return done;
}

CUPTI cuptiGetResultString(int status, const char** text) {
  if (text == nullptr) return invalid_parameter;
  switch (status) {
    case done: *text = "CUPTI_SUCCESS"; return done;
    case invalid_parameter: *text = "CUPTI_ERROR_INVALID_PARAMETER"; return done;
    case invalid_operation: *text = "CUPTI_ERROR_INVALID_OPERATION"; return done;
    case not_initialized: *text = "CUPTI_ERROR_NOT_INITIALIZED"; return done;
    case no_more_records: *text = "CUPTI_ERROR_MAX_LIMIT_REACHED"; return done;
    default: return invalid_parameter;
  }
}
