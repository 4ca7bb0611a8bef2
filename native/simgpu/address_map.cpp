#include "address_map.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <sys/mman.h>
#include <utility>

#include "failure.h"
#include "process.h"

namespace sim {

PrivateMemory::PrivateMemory(uint64_t size, uint64_t alignment, Inherited inherited) : size_(size) {
  uint64_t room = size + alignment;
  require(room > size, CUDA_ERROR_OUT_OF_MEMORY);
  const int kind = inherited == Inherited::shared ? MAP_SHARED : MAP_PRIVATE;
  void* at = mmap(nullptr, room, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(at != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  uint64_t start = reinterpret_cast<uint64_t>(at);
  base_ = (start + alignment - 1) & ~(alignment - 1);
  if (base_ != start) munmap(at, base_ - start);
  if (base_ + size != start + room) munmap(reinterpret_cast<void*>(base_ + size), start + room - base_ - size);
  if (inherited == Inherited::not_at_all) madvise(reinterpret_cast<void*>(base_), size, MADV_DONTFORK);
}

PrivateMemory::PrivateMemory(PrivateMemory&& other) noexcept
    : base_(std::exchange(other.base_, 0)), size_(std::exchange(other.size_, 0)) {}

PrivateMemory::~PrivateMemory() {
  if (size_ != 0) munmap(reinterpret_cast<void*>(base_), size_);
}

Allocation::~Allocation() {
  if (pool) pool->used -= Pool::share(size);
  if (charged != 0) process().ledger.refund(device->spec.uuid, charged);
}

bool Allocation::accessible_from(const Device& reader) const {
  if (kind != Kind::mapped) return true;
  auto granted = access.find({CU_MEM_LOCATION_TYPE_DEVICE, reader.ordinal});
  return granted != access.end() && granted->second != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

bool Allocation::accessible_from_host() const { return !on_device(); }

void AddressMap::add(AllocationRef allocation) {
  uint64_t base = allocation->base;
  by_base_[base] = std::move(allocation);
}

AllocationRef AddressMap::at(uint64_t address) const {
  auto next = by_base_.upper_bound(address);
  if (next == by_base_.begin()) return nullptr;
  const AllocationRef& candidate = std::prev(next)->second;
  return address - candidate->base < candidate->size ? candidate : nullptr;
}

AllocationRef AddressMap::starting_at(uint64_t base) const {
  auto found = by_base_.find(base);
  return found == by_base_.end() ? nullptr : found->second;
}

AllocationRef AddressMap::reaching(uint64_t address) const {
  auto next = by_base_.upper_bound(address);
  if (next == by_base_.begin()) return nullptr;
  const AllocationRef& candidate = std::prev(next)->second;
  return address - candidate->base < candidate->reach() ? candidate : nullptr;
}

bool AddressMap::overlaps(uint64_t base, uint64_t size) const {
  auto next = by_base_.lower_bound(base);
  return at(base) != nullptr || (next != by_base_.end() && next->first - base < size);
}

std::vector<AllocationRef> AddressMap::covering(uint64_t base, uint64_t size) const {
  std::vector<AllocationRef> parts;
  uint64_t reached = base;
  const uint64_t end = base + size;
  if (end < base) return {};
  do {
    AllocationRef part = at(reached);
    if (!part) return {};
    bool one_of_many = part->kind == Kind::mapped;
    reached = part->base + part->size;
    parts.push_back(std::move(part));
    if (reached < end && !one_of_many) return {};
  } while (reached < end);
  return parts;
}

std::vector<AllocationRef> AddressMap::all() const {
  std::vector<AllocationRef> allocations;
  for (const auto& item : by_base_) allocations.push_back(item.second);
  return allocations;
}

uint64_t next_buffer_id() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

}  // namespace sim
