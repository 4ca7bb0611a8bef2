// A CUPTI with one buffer of records at the end, and troubles: FAKE_CUPTI names what it does.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "../../../native/cupti/records.h"

using namespace torpor::cupti;

namespace {

Requested requested = nullptr;
Completed completed = nullptr;
std::mutex held;  // as the real one holds locks while it calls
std::size_t lost = 0;

bool does(const char* what) { return std::strcmp(std::getenv("FAKE_CUPTI"), what) == 0; }

struct Buffer {
  std::uint8_t* bytes = nullptr;
  std::size_t size = 0, used = 0;

  void kernel(const std::string& name, std::uint64_t start, std::uint64_t end) {
    Kernel record{};
    record.kind = kConcurrentKernel;
    record.start = start;
    record.end = end;
    record.name = strdup(name.c_str());
    std::memcpy(bytes + used, &record, sizeof record);
    used += sizeof record;
  }
};

void fill_one(Buffer& buffer) {
  if (does("names")) {
    for (int i = 0; i < 10000; ++i) buffer.kernel("kernel" + std::to_string(i), 1000 + i, 1001 + i);
  } else if (does("untimed")) {
    buffer.kernel("never", 0, 0);
    buffer.kernel("backwards", 9, 8);
    buffer.kernel("timed", 10, 30);
  } else {
    buffer.kernel("\"a\\b\n\xff", 10, 30);
    buffer.kernel("_ZN2at6native4copyIfEEvPT_", 20, 50);
  }
}

}  // namespace

#define CUPTI extern "C" __attribute__((visibility("default"))) int

CUPTI cuptiActivityRegisterCallbacks(Requested asked, Completed done) {
  requested = asked;
  completed = done;
  return 0;
}
CUPTI cuptiActivityEnable(std::uint32_t kind) { return does("refuse") || (does("half") && kind != kConcurrentKernel) ? 39 : 0; }
CUPTI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, std::uint8_t** record) {
  std::lock_guard lock(held);
  if (does("broken")) return 999;
  *record = *record == nullptr ? buffer : *record + sizeof(Kernel);
  return *record < buffer + valid ? 0 : 12;
}
CUPTI cuptiActivityFlushAll(std::uint32_t all) {
  if (all == 0) return 0;
  while (does("hang")) ::pause();
  Buffer buffer;
  std::size_t most = 0;
  {
    std::lock_guard lock(held);
    requested(&buffer.bytes, &buffer.size, &most);
    if (does("drop")) lost = 7;
  }
  fill_one(buffer);
  completed(nullptr, 0, buffer.bytes, buffer.size, buffer.used);
  return does("unflushed") ? 999 : 0;
}
CUPTI cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* count) {
  std::lock_guard lock(held);
  *count = lost;
  lost = 0;
  return 0;
}
CUPTI cuptiGetResultString(int status, const char** text) {
  if (status != 39) return 1;
  *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
  return 0;
}
