#include "activity.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "stream.h"

namespace sim {

namespace {

std::atomic<Listener> listener{nullptr};

uint64_t now() {
  const auto since = Clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace

const ActivityTable& activity_table() {
  static const ActivityTable table{sizeof table, [](Listener wanted) { listener.store(wanted); }};
  return table;
}

std::function<void(Stream&)> told(Activity what, std::function<void(Stream&)> run) {
  const Listener tell = listener.load();
  if (tell == nullptr) return run;
  return [tell, what = std::move(what), run = std::move(run)](Stream& stream) {
    if (stream.health->broken()) return run(stream);
    const uint64_t begun = now();
    run(stream);
    tell({what.kind, what.name.c_str(), what.from, what.to, what.bytes, begun, now(), stream.ordinal});
  };
}

void load_injection() {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return;  // the library may call cuInit itself
  const char* const path = secure_getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return;
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  if (auto* const begin = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))) begin();
}

}  // namespace sim
