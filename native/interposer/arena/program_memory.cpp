#include "program_memory.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "../generated/real.h"
#include "arena.h"

namespace torpor::arena {

ProgramMemory* ProgramMemory::get() {
  if (Arena::get() == nullptr) return nullptr;
  static auto* const instance = new ProgramMemory;
  return instance;
}

ProgramMemory::Shared ProgramMemory::find(CUmemGenericAllocationHandle handle) const {
  const std::lock_guard guard(lock_);
  const auto found = alive_.find(handle);
  return found == alive_.end() || found->second->references == 0 ? nullptr : found->second;
}

ProgramMemory::Shared ProgramMemory::at(CUdeviceptr address) const {
  const std::lock_guard guard(lock_);
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return nullptr;
  const auto& [start, mapping] = *std::prev(after);
  return address - start < mapping.size ? mapping.memory : nullptr;
}

CUmemGenericAllocationHandle ProgramMemory::real_handle(CUmemGenericAllocationHandle handle) const {
  if (!is_ours(handle)) return handle;
  const Shared memory = find(handle);
  return memory ? memory->handle : 0;
}

CUmemGenericAllocationHandle ProgramMemory::add(Shared memory) {
  const std::lock_guard guard(lock_);
  memory->id = next_id_++;
  memory->references = 1;
  const CUmemGenericAllocationHandle id = memory->id;
  alive_.emplace(id, std::move(memory));
  return id;
}

void ProgramMemory::retain(const Shared& memory) {
  const std::lock_guard guard(lock_);
  ++memory->references;
}

bool ProgramMemory::release(CUmemGenericAllocationHandle handle) {
  const Shared memory = find(handle);
  if (!memory) return false;
  {
    const std::lock_guard guard(lock_);
    if (memory->references == 0) return false;
    if (--memory->references != 0 || !memory->addresses.empty()) return true;
    alive_.erase(memory->id);
  }
  give_up(memory);
  return true;
}

// Taken out of the books by the caller, so only one thread comes here with it.
void ProgramMemory::give_up(const Shared& memory) {
  if (!memory->away) real::cuMemRelease(memory->handle);
  memory->kept.reset();
}

void ProgramMemory::mapped(CUdeviceptr address, std::uint64_t size, std::uint64_t offset, const Shared& memory) {
  const std::lock_guard guard(lock_);
  mappings_.insert_or_assign(address, Mapping{size, offset, memory, {}});
  memory->addresses.push_back(address);
}

// Makes `at` the border of two mappings, if it is inside one.
void ProgramMemory::split(CUdeviceptr at) {
  const auto after = mappings_.upper_bound(at);
  if (after == mappings_.begin()) return;
  const auto found = std::prev(after);
  auto& [start, mapping] = *found;
  if (at == start || at - start >= mapping.size) return;
  Mapping rest = mapping;
  rest.size = mapping.size - (at - start);
  rest.offset = mapping.offset + (at - start);
  mapping.size = at - start;
  rest.memory->addresses.push_back(at);
  mappings_.emplace(at, std::move(rest));
}

void ProgramMemory::unmapped(CUdeviceptr address, std::uint64_t size) {
  std::vector<Shared> gone;
  {
    const std::lock_guard guard(lock_);
    auto [each, end] = within(address, size);
    for (; each != end; each = mappings_.erase(each)) {
      const Shared& memory = each->second.memory;
      std::erase(memory->addresses, each->first);
      if (!memory->addresses.empty() || memory->references != 0) continue;
      alive_.erase(memory->id);
      gone.push_back(memory);
    }
  }
  for (const Shared& memory : gone) give_up(memory);
}

// The mappings that make up a range, whose borders become borders of mappings.
std::pair<ProgramMemory::Mappings::iterator, ProgramMemory::Mappings::iterator> ProgramMemory::within(
    CUdeviceptr address, std::uint64_t size) {
  auto first = mappings_.lower_bound(address);
  // Nearly always the range is exactly one mapping.
  if (first != mappings_.end() && first->first == address && first->second.size == size) {
    return {first, std::next(first)};
  }
  split(address);
  split(address + size);
  return {mappings_.lower_bound(address), mappings_.lower_bound(address + size)};
}

void ProgramMemory::Access::set(const CUmemAccessDesc& access) {
  const auto same = [&access](const CUmemAccessDesc& one) {
    return one.location.type == access.location.type && one.location.id == access.location.id;
  };
  if (first_.location.type == CU_MEM_LOCATION_TYPE_INVALID || same(first_)) {
    first_ = access;
    return;
  }
  const auto known = std::find_if(rest_.begin(), rest_.end(), same);
  if (known == rest_.end()) {
    rest_.push_back(access);
  } else {
    *known = access;
  }
}

std::vector<CUmemAccessDesc> ProgramMemory::Access::all() const {
  std::vector<CUmemAccessDesc> out;
  if (first_.location.type != CU_MEM_LOCATION_TYPE_INVALID) out.push_back(first_);
  out.insert(out.end(), rest_.begin(), rest_.end());
  return out;
}

bool ProgramMemory::Access::operator==(const Access& other) const {
  return std::ranges::equal(all(), other.all(), [](const CUmemAccessDesc& one, const CUmemAccessDesc& two) {
    return one.location.type == two.location.type && one.location.id == two.location.id && one.flags == two.flags;
  });
}

void ProgramMemory::accessed(CUdeviceptr address, std::uint64_t size, const CUmemAccessDesc* access,
                             std::size_t count) {
  const std::lock_guard guard(lock_);
  const auto [first, end] = within(address, size);
  for (auto each = first; each != end; ++each) {
    for (std::size_t i = 0; i < count; ++i) each->second.access.set(access[i]);
  }
}

std::vector<ProgramMemory::Shared> ProgramMemory::all() const {
  const std::lock_guard guard(lock_);
  std::vector<Shared> out;
  for (const auto& [id, memory] : alive_) {
    if (!memory->pinned) out.push_back(memory);
  }
  return out;
}

ProgramMemory::Shared ProgramMemory::movable(std::uint64_t id) const {
  const std::lock_guard guard(lock_);
  const auto found = alive_.find(id);
  return found == alive_.end() || found->second->pinned ? nullptr : found->second;
}

std::vector<std::pair<CUdeviceptr, ProgramMemory::Mapping>> ProgramMemory::mappings_of(const Memory& memory) const {
  const std::lock_guard guard(lock_);
  std::vector<std::pair<CUdeviceptr, Mapping>> out;
  for (const CUdeviceptr address : memory.addresses) out.emplace_back(address, mappings_.at(address));
  std::sort(out.begin(), out.end(), [](const auto& one, const auto& other) { return one.first < other.first; });
  return out;
}

namespace {

using Piece = std::pair<CUdeviceptr, ProgramMemory::Mapping>;

// What the program mapped by one call, though it may have changed the access to parts of it: the driver maps a handle only
// whole. Pieces are in ascending order.
std::span<const Piece> first_whole(std::span<const Piece> pieces) {
  std::size_t count = 1;
  while (count < pieces.size()) {
    const auto& [address, mapping] = pieces[count - 1];
    const auto& [next, rest] = pieces[count];
    if (address + mapping.size != next || mapping.offset + mapping.size != rest.offset) break;
    ++count;
  }
  return pieces.first(count);
}

std::uint64_t size_of(std::span<const Piece> whole) {
  return whole.back().first + whole.back().second.size - whole.front().first;
}

CUresult set_access(CUdeviceptr address, std::uint64_t size, const ProgramMemory::Access& access) {
  const std::vector<CUmemAccessDesc> all = access.all();
  return all.empty() ? CUDA_SUCCESS : real::cuMemSetAccess(address, size, all.data(), all.size());
}

// On failure nothing is mapped there.
CUresult map_one(std::span<const Piece> whole, CUmemGenericAllocationHandle handle) {
  const auto& [start, first] = whole.front();
  const std::uint64_t size = size_of(whole);
  CUresult result = real::cuMemMap(start, size, first.offset, handle, 0);
  if (result != CUDA_SUCCESS) return result;
  result = set_access(start, size, first.access);
  for (const auto& [address, mapping] : whole.subspan(1)) {
    if (result == CUDA_SUCCESS && mapping.access != first.access) result = set_access(address, mapping.size, mapping.access);
  }
  if (result != CUDA_SUCCESS) real::cuMemUnmap(start, size);
  return result;
}

CUresult unmap_one(std::span<const Piece> whole) { return real::cuMemUnmap(whole.front().first, size_of(whole)); }

// `change` for each whole mapping in turn; when one fails `undo` for those before it.
template <typename Change, typename Undo>
CUresult all_or_none(std::span<const Piece> pieces, Change change, Undo undo) {
  std::vector<std::span<const Piece>> done;
  while (!pieces.empty()) {
    const auto whole = first_whole(pieces);
    if (const CUresult result = change(whole); result != CUDA_SUCCESS) {
      for (const auto& one : done) undo(one);
      return result;
    }
    done.push_back(whole);
    pieces = pieces.subspan(whole.size());
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult ProgramMemory::map_all(const Memory& memory, CUmemGenericAllocationHandle handle) const {
  const auto pieces = mappings_of(memory);
  return all_or_none(
      pieces, [handle](const auto& whole) { return map_one(whole, handle); }, unmap_one);
}

CUresult ProgramMemory::unmap_all(const Memory& memory) const {
  const auto pieces = mappings_of(memory);
  return all_or_none(pieces, unmap_one, [&memory](const auto& whole) { map_one(whole, memory.handle); });
}

}  // namespace torpor::arena
