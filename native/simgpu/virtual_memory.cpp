#include "virtual_memory.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <set>
#include <sys/mman.h>

#include "failure.h"
#include "process.h"

namespace sim {

namespace {

constexpr int bare = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

void make_bare(uint64_t base, uint64_t size) {
  void* at = mmap(pointer(base), size, PROT_NONE, bare | MAP_FIXED, -1, 0);
  require(at != MAP_FAILED, CUDA_ERROR_OPERATING_SYSTEM);
}

int protection(const Allocation& mapping) {
  int protection = PROT_NONE;
  for (const auto& [location, flags] : mapping.access) {
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READ) protection |= PROT_READ;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) protection |= PROT_READ | PROT_WRITE;
  }
  return protection;
}

void map_pages(const Allocation& mapping) {
  void* at = mmap(pointer(mapping.base), mapping.reach(), protection(mapping), MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                  mapping.block->fd(), 0);
  require(at != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  madvise(at, mapping.reach(), MADV_DONTFORK);
}

}  // namespace

uint64_t VirtualMemory::reserve(uint64_t size, uint64_t alignment, uint64_t hint) {
  require(size != 0 && size % granularity == 0);
  require(alignment == 0 || std::has_single_bit(alignment));
  alignment = std::max(alignment, granularity);
  if (hint != 0 && hint % alignment == 0) {
    void* at = mmap(pointer(hint), size, PROT_NONE, bare | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == pointer(hint)) {
      reservations_[hint] = size;
      return hint;
    }
    if (at != MAP_FAILED) munmap(at, size);  // a kernel that does not know the flag takes the hint lightly
  }
  uint64_t room = size + alignment;
  require(room > size, CUDA_ERROR_OUT_OF_MEMORY);
  void* at = mmap(nullptr, room, PROT_NONE, bare, -1, 0);
  require(at != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  uint64_t start = reinterpret_cast<uint64_t>(at);
  uint64_t base = (start + alignment - 1) & ~(alignment - 1);
  if (base != start) munmap(at, base - start);
  if (base + size != start + room) munmap(pointer(base + size), start + room - base - size);
  reservations_[base] = size;
  return base;
}

void VirtualMemory::free_reservation(uint64_t base, uint64_t size) {
  auto found = reservations_.find(base);
  require(found != reservations_.end() && found->second == size);
  require(!process().memory.overlaps(base, size));
  reservations_.erase(found);
  munmap(pointer(base), size);
}

bool VirtualMemory::reserved(uint64_t address) const {
  auto next = reservations_.upper_bound(address);
  return next != reservations_.begin() && address - std::prev(next)->first < std::prev(next)->second;
}

CUmemGenericAllocationHandle VirtualMemory::add(std::shared_ptr<Block> block) {
  block->handle_references = 1;
  CUmemGenericAllocationHandle handle = block->id;
  handles_[handle] = std::move(block);
  return handle;
}

std::shared_ptr<Block> VirtualMemory::find(CUmemGenericAllocationHandle handle) const {
  auto found = handles_.find(handle);
  require(found != handles_.end());
  return found->second;
}

void VirtualMemory::retain(const std::shared_ptr<Block>& block) {
  ++block->handle_references;
  handles_[block->id] = block;
}

void VirtualMemory::release(CUmemGenericAllocationHandle handle) {
  std::shared_ptr<Block> block = find(handle);
  if (--block->handle_references == 0) handles_.erase(handle);
}

void VirtualMemory::map(AddressMap& memory, uint64_t base, uint64_t size, uint64_t offset, std::shared_ptr<Block> block) {
  require(base != 0 && size != 0 && base % granularity == 0 && size % granularity == 0 && offset % granularity == 0);
  require(offset == 0 && size == block->size, CUDA_ERROR_NOT_SUPPORTED);  // as on an H200: whole handles only
  auto next = reservations_.upper_bound(base);
  require(next != reservations_.begin());
  auto [start, length] = *std::prev(next);
  require(base - start < length && size <= length - (base - start));
  require(!memory.overlaps(base, size));
  auto mapping = std::make_shared<Allocation>(Kind::mapped);
  mapping->base = base;
  mapping->size = size;
  mapping->device = block->device;
  mapping->buffer_id = next_buffer_id();
  mapping->block = std::move(block);
  map_pages(*mapping);
  memory.add(std::move(mapping));
}

std::vector<AllocationRef> VirtualMemory::mappings(const AddressMap& memory, uint64_t base, uint64_t size) const {
  require(base != 0 && size != 0);
  std::vector<AllocationRef> parts = memory.covering(base, size);
  require(!parts.empty() && parts.front()->base == base && parts.back()->base + parts.back()->size == base + size);
  require(parts.front()->kind == Kind::mapped);
  return parts;
}

void VirtualMemory::unmap(AddressMap& memory, const std::vector<AllocationRef>& mappings) {
  for (const AllocationRef& mapping : mappings) {
    make_bare(mapping->base, mapping->size);
    memory.remove(mapping->base);
  }
}

void VirtualMemory::set_access(const Allocation& mapping) {
  require(mprotect(pointer(mapping.base), mapping.size, protection(mapping)) == 0, CUDA_ERROR_OPERATING_SYSTEM);
}

std::vector<std::shared_ptr<Block>> VirtualMemory::blocks(const AddressMap& memory) const {
  std::set<std::shared_ptr<Block>> unique;
  for (const auto& item : handles_) unique.insert(item.second);
  for (const AllocationRef& allocation : memory.all())
    if (allocation->block) unique.insert(allocation->block);
  return {unique.begin(), unique.end()};
}

void VirtualMemory::hide_mappings(const AddressMap& memory) {
  for (const AllocationRef& mapping : memory.all())
    if (mapping->block) make_bare(mapping->base, mapping->reach());
}

void VirtualMemory::show_mappings(const AddressMap& memory) {
  for (const AllocationRef& mapping : memory.all())
    if (mapping->block) map_pages(*mapping);
}

}  // namespace sim
