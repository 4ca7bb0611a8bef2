#include "checkpoint.h"

#include <algorithm>
#include <map>
#include <set>
#include <unistd.h>

#include "failure.h"
#include "faults.h"
#include "own_thread.h"
#include "process.h"
#include "shared_memory.h"

namespace sim {

namespace {

void require_state(const Mailbox& mailbox, CUprocessState state) {
  require(mailbox.state == static_cast<uint32_t>(state), CUDA_ERROR_ILLEGAL_STATE);
}

std::vector<Ticket> all_work(Process& self) {
  std::vector<Ticket> tickets;
  for (const auto& context : self.contexts.all())
    for (Ticket& ticket : context->everything()) tickets.push_back(std::move(ticket));
  return tickets;
}

void let_calls_go_on(Process& self) {
  self.locked = false;
  self.unlocked.notify_all();
}

// Bytes that the driver has to carry for each device.
std::map<Device*, uint64_t> residual_bytes(Process& self, const std::vector<std::shared_ptr<Block>>& blocks) {
  std::map<Device*, uint64_t> bytes;
  for (const auto& allocation : self.memory.all())
    if (allocation->charged != 0) bytes[allocation->device] += allocation->charged;
  for (const auto& block : blocks)
    if (block->device != nullptr) bytes[block->device] += block->size;
  return bytes;
}

// The devices that this process' devices become, in its order.
std::vector<DeviceSpec> destinations(const Process& self, const Request& request) {
  require(request.pair_count <= max_devices && request.machine_count <= max_devices);
  std::map<Uuid, Uuid> wanted;
  for (const auto& device : self.devices) wanted[device->spec.uuid] = device->spec.uuid;
  for (uint32_t i = 0; i < request.pair_count; ++i) {
    auto found = wanted.find(request.pairs[i][0]);
    require(found != wanted.end());
    found->second = request.pairs[i][1];
  }
  std::set<Uuid> taken;
  std::vector<DeviceSpec> specs;
  for (const auto& device : self.devices) {
    const DeviceSpec* end = request.machine + request.machine_count;
    const Uuid& uuid = wanted[device->spec.uuid];
    const DeviceSpec* spec = std::find_if(request.machine, end, [&](const DeviceSpec& s) { return s.uuid == uuid; });
    require(spec != end && taken.insert(uuid).second);
    require(spec->major == device->spec.major && spec->minor == device->spec.minor, CUDA_ERROR_NOT_SUPPORTED);
    specs.push_back(*spec);
  }
  return specs;
}

void exchange_specs(Process& self, std::vector<DeviceSpec>& specs) {
  for (size_t i = 0; i < specs.size(); ++i) std::swap(self.devices[i]->spec, specs[i]);
}

void book_linear_memory(Process& self) {
  for (const auto& allocation : self.memory.all()) {
    if (allocation->charged == 0) continue;
    const DeviceSpec& spec = allocation->device->spec;
    self.ledger.charge(spec.uuid, spec.memory, allocation->charged);
  }
}

MappedMailbox* own_mailbox = nullptr;  // never destroyed: its thread lives as long as the process

CUresult carry_out(Mailbox& mailbox) {
  try {
    switch (mailbox.request.step) {
      case Step::lock:
        fault_point("target:lock");
        lock_process(mailbox);
        return CUDA_SUCCESS;
      case Step::checkpoint:
        fault_point("target:checkpoint");
        checkpoint_process(mailbox);
        return CUDA_SUCCESS;
      case Step::restore:
        fault_point("target:restore");
        restore_process(mailbox);
        return CUDA_SUCCESS;
      case Step::unlock:
        fault_point("target:unlock");
        unlock_process(mailbox);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  } catch (const Failure& failure) {
    return failure.status;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception&) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
}

[[noreturn]] void serve(Mailbox& mailbox) {
  mailbox.thread = gettid();
  mailbox.thread.notify_one();
  for (;;) {
    uint32_t asked = mailbox.asked;
    if (asked == mailbox.answered) {
      futex_wait(mailbox.asked, asked, -1);
      continue;
    }
    mailbox.status = carry_out(mailbox);
    mailbox.answered = asked;
    futex_wake(mailbox.answered);
  }
}

}  // namespace

void serve_checkpoints() {
  own_mailbox = new MappedMailbox(MappedMailbox::make());
  MappedMailbox* mailbox = own_mailbox;
  start_own_thread("torpor-sim", [mailbox] { serve(*mailbox->operator->()); });
  (*mailbox)->thread.wait(0);  // its id can be asked for as soon as cuInit has returned
}

void stop_serving_in_child() { own_mailbox->abandon(); }

void lock_process(Mailbox& mailbox) {
  Process& self = process();
  require_state(mailbox, CU_PROCESS_STATE_RUNNING);
  std::vector<Ticket> tickets;
  {
    std::lock_guard lock(self.mutex);
    self.locked = true;
    tickets = all_work(self);
  }
  uint32_t limit = mailbox.request.timeout_ms;
  bool drained = true;
  if (limit == 0) wait_all(tickets);
  else drained = wait_all_until(tickets, Clock::now() + std::chrono::milliseconds(limit));
  if (!drained) {
    std::lock_guard lock(self.mutex);
    let_calls_go_on(self);
    fail(CUDA_ERROR_NOT_READY);
  }
  mailbox.state = CU_PROCESS_STATE_LOCKED;
}

void unlock_process(Mailbox& mailbox) {
  require_state(mailbox, CU_PROCESS_STATE_LOCKED);
  std::lock_guard lock(process().mutex);
  mailbox.state = CU_PROCESS_STATE_RUNNING;
  let_calls_go_on(process());
}

void checkpoint_process(Mailbox& mailbox) {
  Process& self = process();
  require_state(mailbox, CU_PROCESS_STATE_LOCKED);
  std::lock_guard lock(self.mutex);
  for (const auto& allocation : self.memory.all())
    require(allocation->kind != Kind::managed, CUDA_ERROR_NOT_SUPPORTED);
  auto blocks = self.virtual_memory.blocks(self.memory);
  try {
    for (const auto& block : blocks) block->save();
  } catch (...) {
    for (const auto& block : blocks) block->settle(true);
    throw;
  }
  std::vector<PrivateCopy> unshared;
  try {
    unshared = copies_of_exported(self.memory);
  } catch (...) {
    for (const auto& block : blocks) block->settle(true);
    throw;
  }
  for (PrivateCopy& copy : unshared) copy.take_place();
  for (const auto& event : self.events.all()) event->shared.reset();
  for (auto& [device, bytes] : residual_bytes(self, blocks))
    device->to_host.carry(bytes, device->spec.link, Clock::now());
  self.virtual_memory.hide_mappings(self.memory);
  for (const auto& block : blocks) block->settle(false);
  self.ledger.leave();
  self.device_files.close();
  mailbox.state = CU_PROCESS_STATE_CHECKPOINTED;
}

void restore_process(Mailbox& mailbox) {
  Process& self = process();
  require_state(mailbox, CU_PROCESS_STATE_CHECKPOINTED);
  std::lock_guard lock(self.mutex);
  auto blocks = self.virtual_memory.blocks(self.memory);
  for (const auto& block : blocks) require(!block->imported, CUDA_ERROR_NOT_SUPPORTED);
  std::vector<DeviceSpec> specs = destinations(self, mailbox.request);
  exchange_specs(self, specs);
  try {
    self.device_files.open();
    book_linear_memory(self);
    for (const auto& block : blocks) block->recreate();
    self.virtual_memory.show_mappings(self.memory);
  } catch (...) {
    self.virtual_memory.hide_mappings(self.memory);
    for (const auto& block : blocks) block->settle(false);
    self.ledger.leave();
    self.device_files.close();
    exchange_specs(self, specs);
    throw;
  }
  for (auto& [device, bytes] : residual_bytes(self, blocks))
    device->to_device.carry(bytes, device->spec.link, Clock::now());
  for (const auto& block : blocks) block->settle(true);
  for (const auto& event : self.events.all())
    if (event->interprocess()) event->shared = SharedEvent::make();
  mailbox.state = CU_PROCESS_STATE_LOCKED;
}

}  // namespace sim
