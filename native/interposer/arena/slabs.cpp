// Small allocations: parts of slabs. A slab is a block of 2 to 32 MiB, each larger than the one before, so that a
// program with few small allocations takes little memory and one with many makes few handles.
#include <algorithm>

#include "arena.h"

namespace torpor::arena {
namespace {

constexpr std::uint64_t kGrain = 512;
constexpr std::uint64_t kSmallestSlab = 2ULL << 20;
constexpr std::uint64_t kLargestSlab = 32ULL << 20;

}  // namespace

std::optional<CUdeviceptr> Arena::take_from_slabs(int device, std::uint64_t size) {
  const std::lock_guard guard(lock_);
  for (const auto& [address, block] : slabs_) {
    if (block->device != device || block->slab->largest() < size) continue;
    if (const auto part = block->slab->take(size)) return part;
  }
  return std::nullopt;
}

std::uint64_t Arena::next_slab_size(const DeviceMemory& memory) const {
  const std::lock_guard guard(lock_);
  std::uint64_t size = std::max(kSmallestSlab, memory.granularity());
  for (const auto& [address, block] : slabs_) {
    if (block->device == memory.ordinal() && size < kLargestSlab) size *= 2;
  }
  return size;
}

CUresult Arena::allocate_small(DeviceMemory& memory, std::uint64_t size, CUdeviceptr& out) {
  const std::shared_lock structure(structure_);
  if (const auto part = take_from_slabs(memory.ordinal(), size)) {
    out = *part;
    return CUDA_SUCCESS;
  }
  auto block = std::make_unique<Block>();
  std::uint64_t slab_size = next_slab_size(memory);
  CUresult result = place(memory, slab_size, *block);
  while (result == CUDA_ERROR_OUT_OF_MEMORY && slab_size > kSmallestSlab) {
    slab_size = std::max(slab_size / 2, kSmallestSlab);
    result = place(memory, slab_size, *block);
  }
  if (result != CUDA_SUCCESS) return result;
  block->slab = std::make_unique<Ranges>(block->address, block->size, kGrain);
  const std::lock_guard guard(lock_);
  out = *block->slab->take(size);
  const CUdeviceptr address = block->address;
  slabs_.emplace(address, block.get());
  blocks_.emplace(address, std::move(block));
  return CUDA_SUCCESS;
}

bool Arena::release_spares() {
  const std::shared_lock structure(structure_);
  std::vector<std::unique_ptr<Block>> spares;
  {
    const std::lock_guard guard(lock_);
    std::vector<CUdeviceptr> unused;
    for (const auto& [address, block] : slabs_) {
      if (block->slab->unused()) unused.push_back(address);
    }
    for (const CUdeviceptr address : unused) spares.push_back(detach(blocks_.find(address)));
  }
  for (const auto& spare : spares) unmap(*spare);
  return !spares.empty();
}

}  // namespace torpor::arena
