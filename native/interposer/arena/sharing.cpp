// Blocks that several processes of a job have: handing out ours, mapping those of others.
#include <sys/random.h>
#include <unistd.h>

#include "../generated/real.h"
#include "../prim/fork_hold.h"
#include "arena.h"

namespace torpor::arena {
namespace {

std::uint64_t random_number() {
  std::uint64_t out = 0;
  if (::getrandom(&out, sizeof out, 0) != sizeof out) out = static_cast<std::uint64_t>(::getpid());
  return out;
}

}  // namespace

SharedName own_name() {
  static const std::uint64_t nonce = random_number();
  return {::getpid(), nonce, 0};
}

CUresult Arena::share(const Allocation& allocation, SharedPart& out) {
  const ForkHold hold;
  const std::shared_lock structure(structure_);
  const std::lock_guard guard(lock_);
  // The caller found the allocation, and a program that frees it meanwhile gets what it asked for.
  const auto after = blocks_.upper_bound(allocation.address);
  if (after == blocks_.begin()) return CUDA_ERROR_INVALID_VALUE;
  Block& block = *std::prev(after)->second;
  if (allocation.address - block.address >= block.size) return CUDA_ERROR_INVALID_VALUE;
  if (!block.shared || !block.kept.intact()) {
    // Sharers are told by the open file, so a second export would be another memory to the keeper.
    if (block.shared && block.imported) return CUDA_ERROR_OPERATING_SYSTEM;
    if (!block.kept.intact()) {
      Descriptor fresh;
      const CUresult result = export_backing(block, fresh);
      if (result != CUDA_SUCCESS) return result;
      if (!block.kept.keep(fresh.get(), block.size, true)) return CUDA_ERROR_OPERATING_SYSTEM;
    } else if (const Descriptor again = block.kept.duplicate();
               !again || !block.kept.keep(again.get(), block.size, true)) {
      return CUDA_ERROR_OPERATING_SYSTEM;
    }
    block.shared = true;
  }
  if (block.id == 0) block.id = next_id_++;
  out.name = own_name();
  out.name.block = block.id;
  out.offset = allocation.address - block.address;
  out.size = allocation.size;
  return CUDA_SUCCESS;
}

Descriptor Arena::shared_descriptor(std::uint64_t block_id, std::uint64_t& size, int& device) const {
  const std::lock_guard guard(lock_);
  for (const auto& [address, block] : blocks_) {
    if (block->id != block_id || !block->shared) continue;
    size = block->size;
    device = block->device;
    return block->kept.duplicate();
  }
  return {};
}

Block* Arena::opened_block(const SharedName& name) {
  for (const auto& [address, block] : blocks_) {
    if (block->opened == name) return block.get();
  }
  return nullptr;
}

std::optional<CUdeviceptr> Arena::open_again(const SharedPart& part) {
  const std::lock_guard guard(lock_);
  const Block* const block = opened_block(part.name);
  if (block == nullptr) return std::nullopt;
  const auto found = allocations_.find(block->address + part.offset);
  if (found == allocations_.end()) return std::nullopt;
  ++found->second.opens;
  return found->first;
}

CUdeviceptr Arena::open_part(Block& block, const SharedPart& part, const contexts::Context& context) {
  const CUdeviceptr address = block.address + part.offset;
  Allocation fresh{address, part.size, next_id_, context.id, context.handle, block.device, 0};
  const auto [found, made] = allocations_.emplace(address, fresh);
  if (made) {
    ++next_id_;
    ++block.opened_parts;
  }
  ++found->second.opens;
  return address;
}

CUresult Arena::open(const SharedPart& part, const Descriptor& descriptor, std::uint64_t block_size, int block_device,
                     CUdeviceptr& out) {
  contexts::Context context;
  CUresult result = contexts::current(context);
  if (result != CUDA_SUCCESS) return result;
  DeviceMemory* const memory = device(block_device);
  if (memory == nullptr || !memory->usable()) return CUDA_ERROR_INVALID_DEVICE;
  // Exclusive, so that two threads which open the same block do not both map it.
  const std::unique_lock structure(structure_);
  if (Block* const present = opened_block(part.name)) {
    const std::lock_guard guard(lock_);
    out = open_part(*present, part, context);
    return CUDA_SUCCESS;
  }
  auto block = std::make_unique<Block>();
  block->size = block_size;
  block->device = block_device;
  block->opened = part.name;
  block->shared = true;
  if (context.device != block_device) block->readers = {context.device};
  const auto address = memory->take_address(block_size);
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  block->address = *address;
  result = import_backing(*block, descriptor, [&](CUmemGenericAllocationHandle handle) {
    return map(block->address, block->size, handle, access(*block));
  });
  if (result != CUDA_SUCCESS) {
    memory->give_address(*address, block_size);
    return result;
  }
  const std::lock_guard guard(lock_);
  out = open_part(*block, part, context);
  blocks_.emplace(block->address, std::move(block));
  return CUDA_SUCCESS;
}

bool Arena::close(CUdeviceptr address) {
  Allocation gone;
  {
    const std::lock_guard guard(lock_);
    const auto found = allocations_.find(address);
    if (found == allocations_.end() || found->second.opens == 0) return false;
    if (--found->second.opens != 0) return true;
    gone = found->second;
    allocations_.erase(found);
  }
  dispose(gone);
  return true;
}

}  // namespace torpor::arena
