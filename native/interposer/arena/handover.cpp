#include "handover.h"

#include "../generated/real.h"
#include "arena.h"
#include "replace.h"

namespace torpor::arena {
namespace {

std::string hexadecimal(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), kDigits[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + out;
}

bool fail(Failure& failure, CUresult code, const char* what, const Block& block) {
  failure.code = code;
  failure.message = std::string(what) + " the block at " + hexadecimal(block.address) + " (" +
                    std::to_string(block.size) + " bytes, device " + std::to_string(block.device) + ") failed";
  return false;
}

bool refuse(Failure& failure, std::string message) {
  failure.code = CUDA_SUCCESS;
  failure.message = std::move(message);
  return false;
}

}  // namespace

bool Handover::enabled() { return Arena::get() != nullptr; }

Totals Handover::totals() {
  Totals out;
  Arena* const arena = Arena::get();
  if (arena == nullptr) return out;
  const std::lock_guard guard(arena->lock_);
  for (const auto& [address, block] : arena->blocks_) {
    ++out.count;
    out.bytes += block->size;
    out.largest = std::max(out.largest, block->size);
    out.imported += block->imported ? 1 : 0;
    out.away += block->away ? 1 : 0;
    out.kept += block->exported || block->away ? 0 : 1;
  }
  return out;
}

void Handover::settle() {
  Arena* const arena = Arena::get();
  if (arena == nullptr) return;
  arena->release_parked();
  arena->release_spares();
  const std::lock_guard guard(arena->lock_);
  for (const auto& [address, block] : arena->blocks_) block->exported = false;
}

bool Handover::export_blocks(std::uint64_t first, std::uint64_t count, std::vector<BlockRecord>& records,
                             std::vector<Descriptor>& descriptors, Failure& failure) {
  Arena* const arena = Arena::get();
  if (arena == nullptr) return true;
  const std::unique_lock structure(arena->structure_);
  std::uint64_t index = 0;
  for (const auto& [address, block] : arena->blocks_) {
    if (index++ < first) continue;
    if (records.size() == count) break;
    if (block->imported) {
      const CUresult result =
          replace_by_copy(*block, *arena->device(block->device), arena->peers_.access(block->device));
      if (result != CUDA_SUCCESS) {
        failure.bytes_needed = block->size;
        return fail(failure, result, "making a copy that can be exported of", *block);
      }
    }
    int fd = -1;
    const CUresult result = real::cuMemExportToShareableHandle(&fd, block->handle,
                                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result != CUDA_SUCCESS) return fail(failure, result, "exporting", *block);
    descriptors.emplace_back(fd);
    records.push_back({address, block->size, block->device, 0, 0});
    block->exported = true;
  }
  return true;
}

bool Handover::release_all(Moved& moved, Failure& failure) {
  moved = Moved{};
  Arena* const arena = Arena::get();
  if (arena == nullptr) return true;
  const std::unique_lock structure(arena->structure_);
  std::vector<Block*> unmapped;
  for (const auto& [address, block] : arena->blocks_) {
    const CUresult result = real::cuMemUnmap(address, block->size);
    if (result != CUDA_SUCCESS) {
      fail(failure, result, "unmapping", *block);
      // Nothing is released yet, so what was unmapped can be mapped again.
      for (Block* const each : unmapped) {
        const CUresult again = map(each->address, each->size, each->handle, arena->peers_.access(each->device));
        if (again != CUDA_SUCCESS) fail(failure, again, "unmapping failed, and mapping again", *each);
      }
      return false;
    }
    unmapped.push_back(block.get());
  }
  for (Block* const block : unmapped) {
    real::cuMemRelease(block->handle);
    block->handle = 0;
    block->away = true;
    block->imported = false;
    ++moved.blocks;
    moved.bytes += block->size;
  }
  return true;
}

bool Handover::take_back(const BlockRecord& record, const Descriptor& descriptor, Failure& failure) {
  Arena* const arena = Arena::get();
  if (arena == nullptr) return refuse(failure, "this process has no arena");
  const std::unique_lock structure(arena->structure_);
  const auto found = arena->blocks_.find(record.address);
  if (found == arena->blocks_.end()) return refuse(failure, "no block at " + hexadecimal(record.address));
  Block& block = *found->second;
  if (block.size != record.size || block.device != record.device || !block.away) {
    return refuse(failure, "the block at " + hexadecimal(record.address) +
                               (block.away ? " has another size or device" : " is not away"));
  }
  CUmemGenericAllocationHandle handle = 0;
  void* const os_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
  CUresult result =
      real::cuMemImportFromShareableHandle(&handle, os_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) return fail(failure, result, "importing", block);
  result = map(block.address, block.size, handle, arena->peers_.access(block.device));
  if (result != CUDA_SUCCESS) {
    real::cuMemRelease(handle);
    return fail(failure, result, "mapping", block);
  }
  block.handle = handle;
  block.imported = true;
  block.away = false;
  block.exported = false;
  return true;
}

}  // namespace torpor::arena
