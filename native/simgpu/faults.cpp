#include "faults.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include "failure.h"
#include "lost_device.h"
#include "process.h"

namespace sim {

namespace {

enum class Action { fail, hang, kill, lose };

struct Fault {
  std::string name;
  uint64_t first = 1;
  bool from_then_on = false;
  Action action = Action::fail;
  int status = 0;
  unsigned device = 0;  // of `lose`
  std::string file;
  std::atomic<uint64_t> calls = 0;
};

using Faults = std::vector<std::unique_ptr<Fault>>;

// The function's name without version and stream suffix: cuMemcpyHtoDAsync_v2_ptsz is cuMemcpyHtoDAsync.
std::string_view base_name(std::string_view name) {
  for (std::string_view suffix : {"_ptsz", "_ptds"})
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  if (name.size() > 3 && name[name.size() - 3] == '_' && name[name.size() - 2] == 'v' && std::isdigit(name.back()))
    name.remove_suffix(3);
  return name;
}

[[noreturn]] void refuse(std::string_view item) {
  std::fprintf(stderr, "torpor simgpu: TORPOR_SIM_FAULT: cannot understand \"%.*s\" (docs/simgpu.md)\n",
               static_cast<int>(item.size()), item.data());
  std::_Exit(127);  // a fault that silently does not happen would make a test pass for the wrong reason
}

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::unique_ptr<Fault> parse(std::string_view item) {
  auto fault = std::make_unique<Fault>();
  size_t equals = item.find('=');
  if (equals == std::string_view::npos) refuse(item);
  std::string_view point = item.substr(0, equals), action = item.substr(equals + 1);
  if (size_t at = point.find('@'); at != std::string_view::npos) {
    std::string_view number = point.substr(at + 1);
    point = point.substr(0, at);
    if (number.ends_with('+')) {
      fault->from_then_on = true;
      number.remove_suffix(1);
    }
    if (!read_number(number, fault->first) || fault->first == 0) refuse(item);
  }
  fault->name = point;
  if (action == "kill") fault->action = Action::kill;
  else if (action.starts_with("lost:")) {
    fault->action = Action::lose;
    if (!read_number(action.substr(5), fault->device) || fault->device >= max_devices) refuse(item);
  }
  else if (action.starts_with("hang:") && action.size() > 5) {
    fault->action = Action::hang;
    fault->file = action.substr(5);
  } else if (!action.starts_with("fail:") || !read_number(action.substr(5), fault->status) || fault->status <= 0)
    refuse(item);
  return fault;
}

const Faults& faults() {
  static const Faults* all = [] {
    auto* parsed = new Faults;
    const char* text = std::getenv("TORPOR_SIM_FAULT");
    std::string_view rest = text != nullptr ? text : "";
    while (!rest.empty()) {
      size_t end = std::min(rest.find(';'), rest.size());
      if (end != 0) parsed->push_back(parse(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return parsed;
  }();
  return *all;
}

std::atomic<uint32_t> lost_devices = 0;  // a bit for each ordinal
static_assert(max_devices <= 32);

// The device has fallen off the bus: whatever runs on it ends, and its contexts are broken for good.
void lose(unsigned ordinal) {
  lost_devices |= 1u << ordinal;
  Process& self = process();
  std::lock_guard lock(self.mutex);
  for (const auto& context : self.contexts.all()) {
    if (context->device.ordinal != static_cast<int>(ordinal)) continue;
    context->health->break_by(CUDA_ERROR_UNKNOWN);
    // No call gets past the broken context with more work, so the streams can be closed.
    context->stream(CU_STREAM_LEGACY, DefaultStream::legacy)->close(true);
    for (const auto& stream : context->streams()) stream->close(true);
  }
}

}  // namespace

bool device_lost(int ordinal) { return (lost_devices >> ordinal & 1) != 0; }

void fault_point(const char* name) {
  for (const auto& fault : faults()) {
    if (fault->name != name && fault->name != base_name(name)) continue;
    uint64_t call = ++fault->calls;
    if (call != fault->first && !(fault->from_then_on && call > fault->first)) continue;
    switch (fault->action) {
      case Action::kill:
        kill(getpid(), SIGKILL);
        break;
      case Action::hang:
        while (access(fault->file.c_str(), F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        break;
      case Action::lose:
        lose(fault->device);
        break;
      case Action::fail:
        fail(static_cast<CUresult>(fault->status));
    }
  }
}

}  // namespace sim
