// Memory that the program makes and maps itself: cuMemCreate, cuMemMap, cuMemSetAccess and their like.
//
// The program gets handles of ours, which stay the same when the driver's change, and which no value of the driver's can
// equal. What cannot be handed over (memory of the host, handles for other systems) keeps the driver's handles and is
// residual. Thread safe; no lock is held over a driver call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "../../abi/cuda_driver.h"
#include "backing.h"

namespace torpor::arena {

class ProgramMemory {
 public:
  struct Memory : Backing {
    std::uint64_t id = 0;                 // the program's handle
    std::uint64_t references = 0;         // those that the program has to release
    std::vector<CUdeviceptr> addresses;   // where it is mapped; few, mostly one
    CUmemAllocationProp properties{};     // as the program asked for them
    bool foreign = false;                 // the program imported it: natively it cannot be exported again
    bool pinned = false;                  // part of a sparse array, which only the driver can save
    bool close_on_exec = true;            // of the descriptors that the program gets
  };
  using Shared = std::shared_ptr<Memory>;

  // Who may access a mapping. Mostly one device, for which nothing is allocated.
  class Access {
   public:
    void set(const CUmemAccessDesc& access);
    std::vector<CUmemAccessDesc> all() const;
    bool operator==(const Access& other) const;

   private:
    CUmemAccessDesc first_{};  // type CU_MEM_LOCATION_TYPE_INVALID: nobody
    std::vector<CUmemAccessDesc> rest_;
  };

  struct Mapping {
    std::uint64_t size = 0;
    std::uint64_t offset = 0;  // in the memory
    Shared memory;
    Access access;
  };
  using Mappings = std::map<CUdeviceptr, Mapping>;

  // Null where Arena::get() is.
  static ProgramMemory* get();

  static bool is_ours(CUmemGenericAllocationHandle handle) { return handle >> 48 == kTag; }
  // The memory of a handle that the program may still use.
  Shared find(CUmemGenericAllocationHandle handle) const;
  // The memory mapped at an address.
  Shared at(CUdeviceptr address) const;
  // The driver's handle for one of the program's; handles that are not ours are the driver's. Zero when it is none.
  CUmemGenericAllocationHandle real_handle(CUmemGenericAllocationHandle handle) const;

  // A new handle with one reference; takes over the driver's.
  CUmemGenericAllocationHandle add(Shared memory);
  void retain(const Shared& memory);
  // False when the handle is not the program's any more.
  bool release(CUmemGenericAllocationHandle handle);

  // Notes what the driver has done.
  void mapped(CUdeviceptr address, std::uint64_t size, std::uint64_t offset, const Shared& memory);
  void unmapped(CUdeviceptr address, std::uint64_t size);
  void accessed(CUdeviceptr address, std::uint64_t size, const CUmemAccessDesc* access, std::size_t count);

  // For the handover. The memory that can leave, in ascending order of ids, and one of it by its id.
  std::vector<Shared> all() const;
  Shared movable(std::uint64_t id) const;
  // Maps the memory's mappings from `handle`; on failure none of them is mapped.
  CUresult map_all(const Memory& memory, CUmemGenericAllocationHandle handle) const;
  // Unmaps them; on failure all of them are mapped.
  CUresult unmap_all(const Memory& memory) const;

 private:
  static constexpr std::uint64_t kTag = 0x5450;
  ProgramMemory() = default;
  void split(CUdeviceptr at);
  std::pair<Mappings::iterator, Mappings::iterator> within(CUdeviceptr address, std::uint64_t size);
  void give_up(const Shared& memory);
  std::vector<std::pair<CUdeviceptr, Mapping>> mappings_of(const Memory& memory) const;

  mutable std::mutex lock_;
  std::uint64_t next_id_ = kTag << 48 | 1;
  std::map<std::uint64_t, Shared> alive_;  // with references or mappings
  Mappings mappings_;
};

}  // namespace torpor::arena
