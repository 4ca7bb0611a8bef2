// Memory and events between processes.
#include "capture.h"
#include "entry.h"
#include "shared_memory.h"

using namespace sim;

namespace {

AllocationRef opened_at(CUdeviceptr address) {
  AllocationRef found = process().memory.starting_at(address);
  require(found && found->kind == Kind::opened);
  return found;
}

void open(CUdeviceptr* out, const CUipcMemHandle& handle, unsigned flags) {
  require(out != nullptr && (flags & ~static_cast<unsigned>(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) == 0);
  forbid_unsafe();
  *out = open_memory(process(), *current_context(), handle);
}

}  // namespace

// The first handle of an allocation waits until nothing runs: its pages are exchanged for ones that can be shared.
SIM_API(cuIpcGetMemHandle, wait, (CUipcMemHandle* out, CUdeviceptr address), (out, address)) {
  require(out != nullptr);
  wait_for_progress([&] {
    Section section;
    current_context();
    AllocationRef found = process().memory.at(address);
    require(found && found->kind == Kind::linear);
    if (!found->exported && !nothing_runs(process())) return false;
    if (!found->exported) export_linear(*found);
    *out = handle_of(*found);
    return true;
  });
}

SIM_API(cuIpcOpenMemHandle, change, (CUdeviceptr* out, CUipcMemHandle handle, unsigned flags), (out, handle, flags)) {
  open(out, handle, flags);
}

SIM_API(cuIpcOpenMemHandle_v2, change, (CUdeviceptr* out, CUipcMemHandle handle, unsigned flags),
        (out, handle, flags)) {
  open(out, handle, flags);
}

// Waits, as cuMemFree does, for what may still use the memory.
SIM_API(cuIpcCloseMemHandle, wait, (CUdeviceptr address), (address)) {
  std::vector<Ticket> tickets;
  {
    Section section;
    current_context();
    tickets = opened_at(address)->context->everything();
  }
  wait_all(tickets);
  Section section;
  AllocationRef found = opened_at(address);
  if (--found->opens == 0) process().memory.remove(address);
}

SIM_API(cuIpcGetEventHandle, change, (CUipcEventHandle* out, CUevent handle), (out, handle)) {
  require(out != nullptr);
  std::shared_ptr<Event> event = process().events.find(handle, CUDA_ERROR_INVALID_HANDLE);
  require(event->shared != nullptr, CUDA_ERROR_INVALID_HANDLE);
  *out = event->shared->handle();
}

SIM_API(cuIpcOpenEventHandle, change, (CUevent* out, CUipcEventHandle handle), (out, handle)) {
  require(out != nullptr);
  std::shared_ptr<Context> context = current_context();
  for (const auto& known : process().events.all())
    require(known->foreign || !known->shared || !known->shared->named_by(handle), CUDA_ERROR_INVALID_CONTEXT);
  auto event = std::make_shared<Event>(context.get(), context->health, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  event->foreign = true;
  event->shared = SharedEvent::open(handle);
  *out = process().events.add(std::move(event));
}
