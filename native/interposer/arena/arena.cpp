#include "arena.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "../generated/real.h"
#include "../hooks/residual.h"
#include "../vm/loss.h"

namespace torpor::arena {
namespace {

constexpr std::uint64_t kLargestSmall = 1ULL << 20;
constexpr std::uint64_t kAddressLimit = 1ULL << 47;
// Clear of the driver's own ids, which count from one.
constexpr std::uint64_t kFirstBufferId = 1ULL << 62;

std::atomic<bool> g_orphan{false};

bool wanted() {
  const char* const setting = std::getenv("TORPOR_ARENA");
  return setting == nullptr || std::string_view(setting) != "off";
}

}  // namespace

Arena::Arena() : next_id_(kFirstBufferId) {
  ::pthread_atfork(nullptr, nullptr, [] { g_orphan.store(true, std::memory_order_relaxed); });
}

Arena* Arena::get() {
  static const bool on = wanted();
  if (!on || g_orphan.load(std::memory_order_relaxed)) return nullptr;
  // Never destroyed: blocks live as long as the process, and the driver frees them with it.
  static auto* const instance = new Arena;
  return instance;
}

DeviceMemory* Arena::device(int ordinal) {
  if (ordinal < 0) return nullptr;
  const auto index = static_cast<std::size_t>(ordinal);
  {
    const std::lock_guard guard(lock_);
    if (index < devices_.size() && devices_[index]) return devices_[index].get();
  }
  auto fresh = std::make_unique<DeviceMemory>(ordinal);
  const std::lock_guard guard(lock_);
  if (index >= devices_.size()) devices_.resize(index + 1);
  if (!devices_[index]) devices_[index] = std::move(fresh);
  return devices_[index].get();
}

std::optional<CUresult> Arena::allocate(std::uint64_t size, CUdeviceptr& out) {
  contexts::Context context;
  CUresult result = contexts::current(context);
  if (result != CUDA_SUCCESS) return result;
  DeviceMemory* const memory = device(context.device);
  if (memory == nullptr || !memory->usable()) return std::nullopt;
  if (size > kAddressLimit) return CUDA_ERROR_OUT_OF_MEMORY;
  if (active_captures() > 0) {
    result = probe_capture(context);
    if (result != CUDA_SUCCESS) return result;
  }
  if (vm::context_was_lost()) {  // a slab may have room, but the context not
    CUdeviceptr probe = 0;
    result = real::cuMemAlloc_v2(&probe, 1);
    if (result != CUDA_SUCCESS) return result;
    real::cuMemFree_v2(probe);
  }

  CUdeviceptr address = 0;
  const auto attempt = [&] {
    return size > kLargestSmall ? allocate_block(*memory, size, address) : allocate_small(*memory, size, address);
  };
  result = attempt();
  if (result == CUDA_ERROR_OUT_OF_MEMORY && release_unused()) result = attempt();
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return result;
  if (result != CUDA_SUCCESS) return std::nullopt;

  enter({.address = address, .size = size, .id = 0, .owner = context.id, .context = context.handle, .device = context.device,
         .opens = 0, .pool = nullptr});
  out = address;
  return CUDA_SUCCESS;
}

CUresult Arena::place(DeviceMemory& memory, std::uint64_t size, Block& out) {
  const std::uint64_t grain = memory.granularity();
  out.size = (size + grain - 1) / grain * grain;
  out.device = memory.ordinal();
  const auto address = memory.take_address(out.size);
  if (!address) return CUDA_ERROR_NOT_SUPPORTED;
  out.address = *address;
  CUresult result = memory.create(out.size, out.handle);
  if (result == CUDA_SUCCESS) {
    result = map(out.address, out.size, out.handle, access(out));
    if (result == CUDA_SUCCESS) return result;
    real::cuMemRelease(out.handle);
  }
  memory.give_address(out.address, out.size);
  return result;
}

CUresult Arena::allocate_block(DeviceMemory& memory, std::uint64_t size, CUdeviceptr& out) {
  const std::shared_lock structure(structure_);
  auto block = std::make_unique<Block>();
  const CUresult result = place(memory, size, *block);
  if (result != CUDA_SUCCESS) return result;
  out = block->address;
  const std::lock_guard guard(lock_);
  blocks_.emplace(out, std::move(block));
  return CUDA_SUCCESS;
}

CUresult Arena::make_pool_block(int device_ordinal, std::uint64_t size, const std::vector<int>& readers, CUdeviceptr& out) {
  const std::shared_lock structure(structure_);
  auto block = std::make_unique<Block>();
  block->pooled = true;
  block->readers = readers;
  const CUresult result = place(*device(device_ordinal), size, *block);
  if (result != CUDA_SUCCESS) return result;
  out = block->address;
  const std::lock_guard guard(lock_);
  blocks_.emplace(out, std::move(block));
  return CUDA_SUCCESS;
}

void Arena::enter(Allocation fresh) {
  const std::lock_guard guard(lock_);
  fresh.id = next_id_++;
  allocations_.emplace(fresh.address, fresh);
}

bool Arena::forget(const Allocation& allocation) {
  const std::lock_guard guard(lock_);
  const auto found = allocations_.find(allocation.address);
  if (found == allocations_.end() || found->second.id != allocation.id) return false;
  allocations_.erase(found);
  return true;
}

std::optional<Allocation> Arena::find(CUdeviceptr inside) const {
  const std::lock_guard guard(lock_);
  auto after = allocations_.upper_bound(inside);
  if (after == allocations_.begin()) return std::nullopt;
  const Allocation& allocation = (--after)->second;
  if (inside - allocation.address >= allocation.size) return std::nullopt;
  return allocation;
}

bool Arena::contains(CUdeviceptr address) const {
  const std::lock_guard guard(lock_);
  for (const auto& memory : devices_) {
    if (memory && memory->contains(address)) return true;
  }
  return false;
}

}  // namespace torpor::arena
