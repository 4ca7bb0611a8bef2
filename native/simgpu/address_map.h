// What lies where: every range of addresses that the driver knows, device and host.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "abi.h"

namespace sim {

struct Device;
class Context;
class Block;
struct Pool;
struct GraphMemory;

enum class Kind {
  linear,      // cuMemAlloc
  pooled,      // cuMemAllocAsync
  managed,     // cuMemAllocManaged
  variable,    // of a module
  mapped,      // a VMM mapping
  opened,      // another process' cuMemAlloc, by cuIpcOpenMemHandle
  host,        // cuMemHostAlloc
  registered,  // cuMemHostRegister
};

// What a forked child gets of some memory. An H200's driver shares pinned host memory with it.
enum class Inherited { not_at_all, as_a_copy, shared };

// Ordinary memory of this process, unmapped with its owner. It is what linear device memory consists of:
// the contents are in the program's own pages, only the books know that they belong to a device.
class PrivateMemory {
 public:
  PrivateMemory() = default;
  // `size` bytes of zeroes, aligned to `alignment` (a power of two ≥ 4 KiB). Throws CUDA_ERROR_OUT_OF_MEMORY.
  PrivateMemory(uint64_t size, uint64_t alignment, Inherited inherited);
  PrivateMemory(PrivateMemory&& other) noexcept;
  PrivateMemory& operator=(PrivateMemory&&) = delete;
  ~PrivateMemory();
  uint64_t base() const { return base_; }
  uint64_t size() const { return size_; }
  void forget() { size_ = 0; }  // the mapping is someone else's from here on

 private:
  uint64_t base_ = 0, size_ = 0;
};

// One known range. Work that touches it holds a reference until it is done.
struct Allocation {
  explicit Allocation(Kind of_kind) : kind(of_kind) {}
  Allocation(Kind of_kind, PrivateMemory owned) : kind(of_kind), memory(std::move(owned)) {}
  ~Allocation();

  const Kind kind;
  uint64_t base = 0;
  uint64_t size = 0;             // as asked for
  Device* device = nullptr;      // where it lives, or whose context registered it
  Context* context = nullptr;    // that it dies with; null for VMM
  std::shared_ptr<Pool> pool;    // pooled only
  uint64_t buffer_id = 0;        // unique for the life of the process
  unsigned flags = 0;            // host, registered, managed: the flags of the call
  uint64_t charged = 0;          // bytes booked on the device
  bool sync_memops = false;
  bool constant = false;         // variable only: kernels cannot write it
  std::weak_ptr<GraphMemory> graph_memory;  // pooled only: of an allocation node
  std::shared_ptr<Block> exported;  // linear only: what its pages are, once other processes may open it
  unsigned opens = 0;            // opened only: how often it was opened and not yet closed
  bool freeing = false;          // pooled: cuMemFreeAsync was called, its turn has not come

  PrivateMemory memory;          // linear, pooled, managed, host

  std::shared_ptr<Block> block;  // mapped and opened only
  std::map<std::pair<int, int>, CUmemAccess_flags> access;  // by location type and id

  bool on_device() const {
    return kind == Kind::linear || kind == Kind::pooled || kind == Kind::variable || kind == Kind::mapped ||
           kind == Kind::opened;
  }
  // Bytes from the base that a kernel can touch: as on hardware, whole pages.
  uint64_t reach() const { return memory.size() != 0 ? memory.size() : size; }
  // Whether `reader` may touch it; only VMM memory has to be opened first.
  bool accessible_from(const Device& reader) const;
  bool accessible_from_host() const;
};

using AllocationRef = std::shared_ptr<Allocation>;

// Guarded by the process lock.
class AddressMap {
 public:
  void add(AllocationRef allocation);
  // Takes it out of the map; its memory goes when the last work on it is done.
  void remove(uint64_t base) { by_base_.erase(base); }

  AllocationRef at(uint64_t address) const;        // that contains the address, or null
  AllocationRef starting_at(uint64_t base) const;  // or null
  AllocationRef reaching(uint64_t address) const;  // that a kernel finds there, or null
  bool overlaps(uint64_t base, uint64_t size) const;
  // The neighbouring ranges that hold [base, base + size) without a gap; empty when there are none.
  std::vector<AllocationRef> covering(uint64_t base, uint64_t size) const;
  std::vector<AllocationRef> all() const;

 private:
  std::map<uint64_t, AllocationRef> by_base_;
};

uint64_t next_buffer_id();

}  // namespace sim
