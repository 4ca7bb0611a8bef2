#include "handover.h"

#include <algorithm>
#include <functional>
#include <span>

#include "../generated/real.h"
#include "../prim/fork_hold.h"
#include "arena.h"
#include "pools.h"
#include "program_memory.h"
#include "stand_ins.h"

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

bool refuse(Failure& failure, std::string message) {
  failure.code = CUDA_SUCCESS;
  failure.message = std::move(message);
  return false;
}

// A block of the arena or memory of the program's, as the handover treats both.
struct Item {
  std::uint64_t address = 0;  // or the program's handle
  Backing* backing = nullptr;
  std::function<CUresult(CUmemGenericAllocationHandle)> map_all;
  std::function<CUresult()> unmap_all;

  CUresult remap(CUmemGenericAllocationHandle fresh) const {
    CUresult result = unmap_all();
    if (result != CUDA_SUCCESS) return result;
    result = map_all(fresh);
    if (result != CUDA_SUCCESS) map_all(backing->handle);
    return result;
  }
};

bool fail(Failure& failure, CUresult code, const char* what, const Item& item) {
  failure.code = code;
  failure.message = std::string(what) + (ProgramMemory::is_ours(item.address) ? " the memory with handle " : " the block at ") +
                    hexadecimal(item.address) + " (" + std::to_string(item.backing->size) + " bytes, device " +
                    std::to_string(item.backing->device) + ") failed";
  return false;
}

Item item_of(Block& block, std::vector<CUmemAccessDesc> access) {
  return {block.address, &block,
          [&block, access = std::move(access)](CUmemGenericAllocationHandle handle) {
            return map(block.address, block.size, handle, access);
          },
          [&block] { return real::cuMemUnmap(block.address, block.size); }};
}

Item item_of(const ProgramMemory::Shared& memory) {
  return {memory->id, memory.get(),
          [memory](CUmemGenericAllocationHandle handle) { return ProgramMemory::get()->map_all(*memory, handle); },
          [memory] { return ProgramMemory::get()->unmap_all(*memory); }};
}

// Numbers of the program that lead to /dev/null while the memory is away. Of the control thread.
std::vector<StandIn>& stand_ins() {
  static auto* const instance = new std::vector<StandIn>;
  return *instance;
}

// Descriptors of what is shared, to tell which of the program's numbers lead there.
class SharedFiles {
 public:
  explicit SharedFiles(const std::vector<Item>& items) {
    copies_.reserve(items.size());
    for (const Item& item : items) {
      if (!item.backing->shared) continue;
      copies_.push_back(item.backing->kept.duplicate());
      files_.push_back({item.address, &copies_.back()});
    }
  }
  // Once the driver has let go of its own descriptors.
  void put() const { stand_ins() = put_stand_ins(files_); }

 private:
  ForkHold hold_;
  std::vector<Descriptor> copies_;
  std::vector<SharedFile> files_;
};

void count(const Backing& backing, Totals& out) {
  ++out.count;
  out.bytes += backing.size;
  out.largest = std::max(out.largest, backing.size);
  out.imported += backing.imported ? 1 : 0;
  out.away += backing.away ? 1 : 0;
  out.kept += backing.exported || backing.away ? 0 : 1;
  out.unshareable += backing.away || backing.shareable() ? 0 : 1;
}

}  // namespace

bool Handover::enabled() { return Arena::get() != nullptr; }

// In the order of the protocol: ascending addresses, and handles are greater than any address.
template <typename Visit>
bool Handover::each_item(Arena& arena, Visit visit) {
  for (const auto& [address, block] : arena.blocks_) {
    if (!visit(item_of(*block, arena.access(*block)))) return false;
  }
  for (const ProgramMemory::Shared& memory : ProgramMemory::get()->all()) {
    if (!visit(item_of(memory))) return false;
  }
  return true;
}

Totals Handover::totals() {
  Totals out;
  Arena* const arena = Arena::get();
  if (arena == nullptr) return out;
  {
    const std::lock_guard guard(arena->lock_);
    for (const auto& [address, block] : arena->blocks_) count(*block, out);
  }
  for (const ProgramMemory::Shared& memory : ProgramMemory::get()->all()) count(*memory, out);
  return out;
}

void Handover::settle() {
  Arena* const arena = Arena::get();
  if (arena == nullptr) return;
  arena->release_parked();
  arena->release_spares();
  pools::settle();
  const std::lock_guard guard(arena->lock_);
  each_item(*arena, [](const Item& item) {
    item.backing->exported = false;
    return true;
  });
}

bool Handover::export_blocks(std::uint64_t first, std::uint64_t count, std::vector<BlockRecord>& records,
                             std::vector<Descriptor>& descriptors, Failure& failure) {
  Arena* const arena = Arena::get();
  if (arena == nullptr) return true;
  const std::unique_lock structure(arena->structure_);
  std::uint64_t index = 0;
  return each_item(*arena, [&](const Item& item) {
    Backing& backing = *item.backing;
    if (index++ < first || records.size() == count) return true;
    if (!backing.shareable()) {
      return refuse(failure, "the program closed the descriptor of memory that it shares with another process (" +
                                 hexadecimal(item.address) + ")");
    }
    if (backing.imported && !backing.kept.intact()) {
      const CUresult result = replace_by_copy(backing, *arena->device(backing.device),
                                              [&item](auto fresh) { return item.remap(fresh); });
      if (result != CUDA_SUCCESS) {
        failure.bytes_needed = backing.size;
        return fail(failure, result, "making a copy that can be exported of", item);
      }
    }
    Descriptor descriptor;
    const CUresult result = export_backing(backing, descriptor);
    if (result != CUDA_SUCCESS) return fail(failure, result, "exporting", item);
    descriptors.push_back(std::move(descriptor));
    records.push_back({item.address, backing.size, backing.device, backing.shared ? BlockRecord::kShared : 0, 0});
    backing.exported = true;
    return true;
  });
}

bool Handover::release_all(Moved& moved, Failure& failure) {
  moved = Moved{};
  Arena* const arena = Arena::get();
  if (arena == nullptr) return true;
  const std::unique_lock structure(arena->structure_);
  std::vector<Item> unmapped;
  const bool all = each_item(*arena, [&](const Item& item) {
    const CUresult result = item.unmap_all();
    if (result != CUDA_SUCCESS) return fail(failure, result, "unmapping", item);
    unmapped.push_back(item);
    return true;
  });
  if (!all) {
    // Nothing is released yet, so what was unmapped can be mapped again.
    for (const Item& item : unmapped) {
      const CUresult again = item.map_all(item.backing->handle);
      if (again != CUDA_SUCCESS) fail(failure, again, "unmapping failed, and mapping again", item);
    }
    return false;
  }
  const SharedFiles shared(unmapped);
  for (const Item& item : unmapped) {
    release_backing(*item.backing);
    ++moved.blocks;
    moved.bytes += item.backing->size;
  }
  shared.put();
  return true;
}

bool Handover::take_back(const BlockRecord& record, const Descriptor& descriptor, Failure& failure) {
  Arena* const arena = Arena::get();
  if (arena == nullptr) return refuse(failure, "this process has no arena");
  const std::unique_lock structure(arena->structure_);
  Item item;
  if (ProgramMemory::is_ours(record.address)) {
    if (const auto memory = ProgramMemory::get()->movable(record.address)) item = item_of(memory);
  } else if (const auto found = arena->blocks_.find(record.address); found != arena->blocks_.end()) {
    item = item_of(*found->second, arena->access(*found->second));
  }
  if (item.backing == nullptr) return refuse(failure, "no block at " + hexadecimal(record.address));
  Backing& backing = *item.backing;
  if (backing.size != record.size || backing.device != record.device || !backing.away) {
    return refuse(failure, "the block at " + hexadecimal(record.address) +
                               (backing.away ? " has another size or device" : " is not away"));
  }
  const CUresult result = import_backing(backing, descriptor, item.map_all);
  if (result != CUDA_SUCCESS) return fail(failure, result, "taking back", item);
  replace_stand_ins(stand_ins(), item.address, descriptor);
  return true;
}

}  // namespace torpor::arena
