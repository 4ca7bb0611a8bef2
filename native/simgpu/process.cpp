#include "process.h"

#include <pthread.h>

#include "checkpoint.h"
#include "entry.h"
#include "failure.h"

namespace sim {

namespace {

// The child has none of our threads and none of the device memory. As with the driver, nothing works in it. It must not
// keep the parent's memory alive either, so what it inherited is closed.
void after_fork_in_child() {
  Process& self = process();
  self.forked = true;
  for (const auto& block : self.virtual_memory.blocks(self.memory)) block->abandon();
  for (const auto& allocation : self.memory.all())
    if (allocation->exported) allocation->exported->abandon();
  for (const auto& event : self.events.all())
    if (event->shared) event->shared->abandon();
  self.ledger.abandon();
  stop_serving_in_child();
  self.mutex.unlock();
}

}  // namespace

Process& process() {
  static Process* instance = new Process;
  return *instance;
}

Device& Process::device(int ordinal) {
  require(ordinal >= 0 && static_cast<size_t>(ordinal) < devices.size(), CUDA_ERROR_INVALID_DEVICE);
  return *devices[static_cast<size_t>(ordinal)];
}

Section::Section() : lock_(process().mutex) {
  process().unlocked.wait(lock_, [] { return !process().locked; });
}

void require_initialised() { require(process().initialised && !process().forked, CUDA_ERROR_NOT_INITIALIZED); }

void initialise() {
  Process& self = process();
  require(!self.forked, CUDA_ERROR_NOT_INITIALIZED);
  std::lock_guard lock(self.mutex);
  if (self.initialised) return;
  self.config = read_config();
  require(!self.config.visible.empty(), CUDA_ERROR_NO_DEVICE);
  int ordinal = 0;
  for (const DeviceSpec& spec : self.config.visible)
    self.devices.push_back(std::make_unique<Device>(ordinal++, spec));
  self.device_files.open();
  make_default_pools(self);
  pthread_atfork([] { process().mutex.lock(); }, [] { process().mutex.unlock(); }, after_fork_in_child);
  serve_checkpoints();
  self.initialised = true;
}

}  // namespace sim
