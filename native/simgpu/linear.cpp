#include "linear.h"

#include "process.h"

namespace sim {

namespace {

constexpr uint64_t page = 4096;
constexpr uint64_t large = uint64_t{1} << 20;  // from here on memory is aligned and booked as the driver's blocks are

uint64_t unit_for(uint64_t size) { return size >= large ? granularity : page; }

AllocationRef enter_into_map(Process& self, std::shared_ptr<Allocation> allocation, uint64_t size) {
  allocation->base = allocation->memory.base();
  allocation->size = size;
  allocation->buffer_id = next_buffer_id();
  self.memory.add(allocation);
  return allocation;
}

uint64_t rounded(uint64_t size) {
  uint64_t unit = unit_for(size);
  require(size <= UINT64_MAX - unit, CUDA_ERROR_OUT_OF_MEMORY);
  return (size + unit - 1) / unit * unit;
}

}  // namespace

AllocationRef make_linear(Process& self, Kind kind, Device& device, Context* context, uint64_t size) {
  uint64_t booked = rounded(size);
  self.ledger.charge(device.spec.uuid, device.spec.memory, booked);
  std::shared_ptr<Allocation> allocation;
  try {
    allocation = std::make_shared<Allocation>(kind, PrivateMemory(booked, unit_for(size), Inherited::not_at_all));
  } catch (...) {
    self.ledger.refund(device.spec.uuid, booked);
    throw;
  }
  allocation->device = &device;
  allocation->charged = booked;
  allocation->context = context;
  return enter_into_map(self, std::move(allocation), size);
}

AllocationRef make_reachable(Process& self, Kind kind, Context& context, uint64_t size, unsigned flags) {
  PrivateMemory memory(rounded(size), unit_for(size), kind == Kind::host ? Inherited::shared : Inherited::not_at_all);
  auto allocation = std::make_shared<Allocation>(kind, std::move(memory));
  allocation->device = &context.device;
  allocation->context = &context;
  allocation->flags = flags;
  return enter_into_map(self, std::move(allocation), size);
}

}  // namespace sim
