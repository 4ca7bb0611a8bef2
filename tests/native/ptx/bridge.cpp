// The PTX part alone behind a C interface, for tests: memory is what the caller says it is.
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "exec/launch.h"

namespace {

using namespace sim;

struct Module {
  std::shared_ptr<const ptx::Program> program;
  std::vector<std::vector<std::byte>> variables;
  std::unique_ptr<exec::Image> image;
};

class Ranges final : public exec::MemoryCheck {
 public:
  std::map<uint64_t, uint64_t> sizes;
  bool find(uint64_t address, Range& out) override {
    auto after = sizes.upper_bound(address);
    if (after == sizes.begin()) return false;
    --after;
    out = {after->first, after->second, true};
    return address - after->first < after->second;
  }
};

class Printed final : public exec::PrintSink {
 public:
  std::string all;
  void print(std::string_view text) override {
    std::lock_guard lock(mutex_);
    all += text;
  }

 private:
  std::mutex mutex_;
};

void say(char* out, size_t room, const std::string& text) {
  const size_t size = std::min(text.size(), room - 1);
  std::memcpy(out, text.data(), size);
  out[size] = 0;
}

}  // namespace

#define BRIDGE extern "C" __attribute__((visibility("default")))

// Null when the text is rejected; then `why` has the log's line.
BRIDGE void* bridge_load(const char* text, size_t size, char* why, size_t room) {
  ptx::Problem problem;
  auto module = std::make_unique<Module>();
  module->program = ptx::parse({text, size}, problem);
  if (!module->program) {
    say(why, room, problem.message());
    return nullptr;
  }
  std::vector<uint64_t> addresses;
  for (const ptx::Variable& variable : module->program->variables) {
    module->variables.emplace_back(variable.size + 64);
    const auto base = reinterpret_cast<uint64_t>(module->variables.back().data());
    addresses.push_back((base + 63) & ~uint64_t{63});
  }
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto bytes = module->program->contents(i, addresses);
    std::memcpy(reinterpret_cast<void*>(addresses[i]), bytes.data(), bytes.size());
  }
  module->image = std::make_unique<exec::Image>(module->program, addresses);
  return module.release();
}

BRIDGE void bridge_unload(void* module) { delete static_cast<Module*>(module); }

// `ranges` are pairs of address and size. Returns the kind of the fault; 100 when there is no such kernel.
BRIDGE int bridge_run(void* handle, const char* name, const uint32_t* shape, uint32_t shared, int cooperative,
                      const void* parameters, const uint64_t* ranges, size_t count, char* printed, size_t room,
                      char* why, size_t why_room) {
  auto* module = static_cast<Module*>(handle);
  const ptx::Kernel* kernel = module->program->kernel(name);
  if (!kernel) return 100;
  Ranges memory;
  for (size_t i = 0; i < count; ++i) memory.sizes[ranges[2 * i]] = ranges[2 * i + 1];
  for (size_t i = 0; i < module->program->variables.size(); ++i)
    memory.sizes[module->image->addresses()[i]] = module->program->variables[i].size;
  Printed out;
  exec::Launch launch;
  launch.grid = {shape[0], shape[1], shape[2]};
  launch.block = {shape[3], shape[4], shape[5]};
  launch.dynamic_shared = shared;
  launch.cooperative = cooperative != 0;
  launch.parameters = static_cast<const std::byte*>(parameters);
  launch.memory = &memory;
  launch.printer = &out;
  const exec::Fault fault = exec::run(*module->image, *kernel, launch);
  say(printed, room, out.all);
  say(why, why_room, fault.message);
  return static_cast<int>(fault.kind);
}

// Parameter bytes, static shared bytes, local bytes, required threads.
BRIDGE int bridge_kernel(void* handle, const char* name, uint32_t* out) {
  const ptx::Kernel* kernel = static_cast<Module*>(handle)->program->kernel(name);
  if (!kernel) return 0;
  out[0] = kernel->parameter_bytes;
  out[1] = kernel->shared_bytes;
  out[2] = kernel->local_bytes;
  out[3] = kernel->max_threads;
  return 1;
}
