// Linear device memory, and how much there is.
#include "capture.h"
#include "entry.h"
#include "linear.h"

using namespace sim;

namespace {

constexpr uint64_t pitch_alignment = 512;

CUdeviceptr allocate(uint64_t size) {
  require(size != 0);
  std::shared_ptr<Context> context = current_context();
  forbid_unsafe();
  return make_linear(process(), Kind::linear, context->device, context.get(), size)->base;
}

AllocationRef freeable(CUdeviceptr address) {
  AllocationRef found = process().memory.starting_at(address);
  require(found && (found->kind == Kind::linear || found->kind == Kind::managed || found->kind == Kind::pooled));
  require(!found->freeing);
  return found;
}

}  // namespace

SIM_API(cuMemAlloc_v2, change, (CUdeviceptr* out, size_t size), (out, size)) {
  require(out != nullptr);
  *out = allocate(size);
}

SIM_API(cuMemAllocPitch_v2, change,
        (CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element),
        (out, pitch, width, height, element)) {
  require(out != nullptr && pitch != nullptr && width != 0 && height != 0);
  require(element == 4 || element == 8 || element == 16);
  require(width <= UINT64_MAX - pitch_alignment, CUDA_ERROR_OUT_OF_MEMORY);
  size_t row = (width + pitch_alignment - 1) / pitch_alignment * pitch_alignment;
  require(height <= UINT64_MAX / row, CUDA_ERROR_OUT_OF_MEMORY);
  *out = allocate(row * height);
  *pitch = row;
}

// As the driver does, waits for whatever may still use the memory: everything that its context has submitted. Not for memory
// from a pool, where that is the caller's to see to.
SIM_API(cuMemFree_v2, wait, (CUdeviceptr address), (address)) {
  if (address == 0) return;
  std::vector<Ticket> tickets;
  {
    Section section;
    std::shared_ptr<Context> context = current_context();
    forbid_unsafe();
    AllocationRef allocation = freeable(address);
    const bool pooled = allocation->kind == Kind::pooled && allocation->graph_memory.expired();
    if (!pooled) tickets = (allocation->context != nullptr ? allocation->context : context.get())->everything();
  }
  wait_all(tickets);
  Section section;
  AllocationRef allocation = freeable(address);
  if (auto of_graph = allocation->graph_memory.lock()) of_graph->live = false;
  else process().memory.remove(address);
}

SIM_API(cuMemGetAddressRange_v2, query, (CUdeviceptr* base, size_t* size, CUdeviceptr address),
        (base, size, address)) {
  current_context();
  AllocationRef found = process().memory.at(address);
  require(found != nullptr, CUDA_ERROR_NOT_FOUND);
  if (base != nullptr) *base = found->base;
  if (size != nullptr) *size = found->size;
}

// Not while a checkpoint has locked the process: the books of all processes would be opened again.
SIM_API(cuMemGetInfo_v2, change, (size_t* free, size_t* total), (free, total)) {
  require(free != nullptr && total != nullptr);
  const DeviceSpec& spec = current_context()->device.spec;
  uint64_t used = process().ledger.used(spec.uuid);
  *total = spec.memory;
  *free = used < spec.memory ? spec.memory - used : 0;
}
