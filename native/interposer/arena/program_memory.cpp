#include "program_memory.h"

#include <algorithm>
#include <iterator>

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

// On failure nothing is mapped there.
CUresult map_one(CUdeviceptr address, const ProgramMemory::Mapping& mapping, CUmemGenericAllocationHandle handle) {
  CUresult result = real::cuMemMap(address, mapping.size, mapping.offset, handle, 0);
  if (result != CUDA_SUCCESS) return result;
  const std::vector<CUmemAccessDesc> access = mapping.access.all();
  if (access.empty()) return CUDA_SUCCESS;
  result = real::cuMemSetAccess(address, mapping.size, access.data(), access.size());
  if (result != CUDA_SUCCESS) real::cuMemUnmap(address, mapping.size);
  return result;
}

}  // namespace

CUresult ProgramMemory::map_all(const Memory& memory, CUmemGenericAllocationHandle handle) const {
  const auto mappings = mappings_of(memory);
  for (auto each = mappings.begin(); each != mappings.end(); ++each) {
    const CUresult result = map_one(each->first, each->second, handle);
    if (result == CUDA_SUCCESS) continue;
    for (auto done = mappings.begin(); done != each; ++done) real::cuMemUnmap(done->first, done->second.size);
    return result;
  }
  return CUDA_SUCCESS;
}

CUresult ProgramMemory::unmap_all(const Memory& memory) const {
  const auto mappings = mappings_of(memory);
  for (auto each = mappings.begin(); each != mappings.end(); ++each) {
    const CUresult result = real::cuMemUnmap(each->first, each->second.size);
    if (result == CUDA_SUCCESS) continue;
    for (auto done = mappings.begin(); done != each; ++done) map_one(done->first, done->second, memory.handle);
    return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace torpor::arena
