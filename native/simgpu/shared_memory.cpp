#include "shared_memory.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "block_bytes.h"
#include "failure.h"
#include "proc_scan.h"
#include "process.h"

namespace sim {

namespace {

constexpr char handle_magic[8] = {'t', 'r', 'p', 'm', 'e', 'm', '0', '1'};

// What a handle says.
struct Name {
  char magic[8];
  uint64_t inode;
  uint64_t size;       // as asked for; the block has whole pages
  uint64_t buffer_id;  // in the owner
  int32_t owner;       // process id, as the owner sees it: where to look first
};
static_assert(sizeof(Name) <= sizeof(CUipcMemHandle));

void show_memfd(uint64_t base, uint64_t size, int fd) {
  void* at = mmap(reinterpret_cast<void*>(base), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
  require(at != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  madvise(at, size, MADV_DONTFORK);
}

CUmemAllocationProp properties_on(const Device& device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.ordinal;
  return properties;
}

}  // namespace

bool nothing_runs(Process& self) {
  for (const auto& context : self.contexts.all())
    for (const Ticket& ticket : context->everything())
      if (!ticket.done()) return false;
  return true;
}

void export_linear(Allocation& allocation) {
  const uint64_t size = allocation.memory.size();
  auto block = std::make_shared<Block>(Block::Booked{}, *allocation.device, size, properties_on(*allocation.device));
  allocation.charged = 0;  // the block's from here on
  try {
    write_nonzero(block->fd(), reinterpret_cast<const uint8_t*>(allocation.base), size);
    show_memfd(allocation.base, size, block->fd());
  } catch (...) {
    block->give_up_booking();
    allocation.charged = size;
    throw;
  }
  block->publish();
  allocation.exported = std::move(block);
}

CUipcMemHandle handle_of(const Allocation& allocation) {
  Name name{};
  std::memcpy(name.magic, handle_magic, sizeof handle_magic);
  name.inode = allocation.exported->inode();
  name.size = allocation.size;
  name.buffer_id = allocation.buffer_id;
  name.owner = getpid();
  CUipcMemHandle handle{};
  std::memcpy(&handle, &name, sizeof name);
  return handle;
}

CUdeviceptr open_memory(Process& self, Context& context, const CUipcMemHandle& handle) {
  Name name;
  std::memcpy(&name, &handle, sizeof name);
  require(std::memcmp(name.magic, handle_magic, sizeof handle_magic) == 0);
  for (const AllocationRef& known : self.memory.all()) {
    require(!known->exported || known->exported->inode() != name.inode, CUDA_ERROR_INVALID_CONTEXT);
    if (known->kind != Kind::opened || known->context != &context || known->block->inode() != name.inode) continue;
    ++known->opens;
    return known->base;
  }
  Descriptor fd = open_memfd(block_memfd_name, name.inode, name.owner);
  require(static_cast<bool>(fd), CUDA_ERROR_INVALID_HANDLE);
  auto block = std::make_shared<Block>(fd.get(), self.devices);
  require(name.size <= block->size);
  auto opened = std::make_shared<Allocation>(Kind::opened, PrivateMemory(block->size, granularity, Inherited::not_at_all));
  show_memfd(opened->memory.base(), block->size, block->fd());
  opened->base = opened->memory.base();
  opened->size = name.size;
  opened->device = block->device;
  opened->context = &context;
  opened->buffer_id = next_buffer_id();
  opened->access[{CU_MEM_LOCATION_TYPE_DEVICE, block->device->ordinal}] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  opened->block = std::move(block);
  opened->opens = 1;
  const CUdeviceptr base = opened->base;
  self.memory.add(std::move(opened));
  return base;
}

PrivateCopy::PrivateCopy(AllocationRef exported)
    : of_(std::move(exported)), bytes_(of_->memory.size(), 4096, Inherited::not_at_all) {
  copy_written(of_->exported->fd(), bytes_.size(), reinterpret_cast<uint8_t*>(bytes_.base()));
}

void PrivateCopy::take_place() {
  // The kernel moves the pages over the shared ones in one step; nothing is left where they came from.
  void* at = mremap(reinterpret_cast<void*>(bytes_.base()), bytes_.size(), bytes_.size(), MREMAP_MAYMOVE | MREMAP_FIXED,
                    reinterpret_cast<void*>(of_->base));
  require(at != MAP_FAILED, CUDA_ERROR_OPERATING_SYSTEM);
  bytes_.forget();
  of_->charged = of_->exported->size;
  of_->exported.reset();
}

std::vector<PrivateCopy> copies_of_exported(const AddressMap& memory) {
  std::vector<PrivateCopy> copies;
  for (const AllocationRef& allocation : memory.all())
    if (allocation->exported) copies.emplace_back(allocation);
  return copies;
}

}  // namespace sim
