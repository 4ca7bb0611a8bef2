// The arena: device memory of the program in exportable blocks at addresses of our choice.
//
// A large allocation is a block of its own; small ones share slabs. The overrides of the driver's memory calls
// (overrides_*.cpp) are the only users besides the handover (handover.h), which works while the gate is closed. Callers
// hold a gate::Scope around every call but wait_until_unused(). Thread safe. No lock is held while the driver waits
// for the GPU.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "../../abi/cuda_driver.h"
#include "backing.h"
#include "contexts.h"
#include "device_memory.h"
#include "peers.h"
#include "ranges.h"
#include "shared_name.h"
#include "stream_key.h"

namespace torpor::arena {

// One handle mapped at one address, which is kept while the memory is away. `slab` is null when a single allocation owns
// the block.
struct Block : Backing {
  CUdeviceptr address = 0;
  std::uint64_t id = 0;               // of this process, never used twice
  std::unique_ptr<Ranges> slab;
  std::optional<SharedName> opened;   // whose block it is, when another process made it
  std::uint32_t opened_parts = 0;     // allocations of ours in such a block
  std::vector<int> readers;           // further devices that may reach it
  bool pooled = false;                // pools.h knows which parts are in use
};

// What the program got from cuMemAlloc, from a pool, or from opening another process's allocation.
struct Allocation {
  CUdeviceptr address = 0;
  std::uint64_t size = 0;      // as asked for
  std::uint64_t id = 0;        // never used twice
  std::uint64_t owner = 0;     // contexts::Context::id; zero where the memory outlives every context
  CUcontext context = nullptr;
  int device = 0;
  std::uint32_t opens = 0;     // how often it was opened; zero for memory of our own
  CUmemoryPool pool = nullptr;
  StreamKey order{};           // of memory from a pool: the stream in whose order it was taken,
  std::uint32_t stream_life = 0;  // and which of those that had its handle
};

// Where an allocation lies in its block, for another process to find it.
struct SharedPart {
  SharedName name;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

class Arena {
 public:
  // Null when TORPOR_ARENA=off, and in a process forked from one that had blocks: they are not the child's.
  static Arena* get();

  // Each returns nothing where the driver itself must answer: memory that is not ours, or that we cannot make.
  std::optional<CUresult> allocate(std::uint64_t size, CUdeviceptr& out);

  std::optional<Allocation> find(CUdeviceptr inside) const;
  // True for any address in our reservations, allocated or not.
  bool contains(CUdeviceptr address) const;

  // Waits for the work of the allocation's context, as cuMemFree does. Nothing, and at once, when a capture forbids waiting.
  std::optional<CUresult> wait_until_unused(const Allocation& allocation) const;
  // Takes the allocation from the program and releases its memory; where work may still use it, or while a capture is active, the
  // memory is parked and released later. False when it has been freed meanwhile.
  bool release(const Allocation& allocation, bool unused);

  // For pools.h: blocks without anything in them, opened to `readers`, and parts of them as allocations.
  CUresult make_pool_block(int device, std::uint64_t size, const std::vector<int>& readers, CUdeviceptr& out);
  CUresult open_pool_block(CUdeviceptr address, int device);
  void release_pool_block(CUdeviceptr address);
  void enter(Allocation fresh);
  // False when it has been freed meanwhile.
  bool forget(const Allocation& allocation);
  // Gives back whatever is held and not in use; false when nothing was.
  bool release_unused();

  // Releases what a destroyed context owned, and forgets its peers.
  void context_gone(const contexts::Context& context);

  // Opens the blocks of `to`'s device to `from`'s device, now and for later ones; close_peer() undoes it.
  CUresult open_peer(const contexts::Context& from, const contexts::Context& to);
  void close_peer(const contexts::Context& from, const contexts::Context& to);

  // While a capture is active: what the driver says to a call of this thread that it may refuse then, as cuMemAlloc or
  // cuMemFree; a refusal ends the capture.
  CUresult probe_capture(const contexts::Context& context);

  // Makes the allocation's block one that other processes of the job can open.
  CUresult share(const Allocation& allocation, SharedPart& out);
  // What a peer needs for opening it: a descriptor, the block's size and its device. Empty when that block is gone. The
  // caller holds a ForkHold.
  Descriptor shared_descriptor(std::uint64_t block_id, std::uint64_t& size, int& device) const;
  // The address of a peer's allocation that is open already, opened once more.
  std::optional<CUdeviceptr> open_again(const SharedPart& part);
  // Maps a peer's block, unless it is mapped by now, and opens the allocation in it. The caller holds a ForkHold.
  CUresult open(const SharedPart& part, const Descriptor& descriptor, std::uint64_t block_size, int block_device,
                CUdeviceptr& out);
  // Gives up one opening; the mapping goes with the last. False when the address was not opened.
  bool close(CUdeviceptr address);

  // The addresses of a device; null for no device's ordinal.
  DeviceMemory* device(int ordinal);

 private:
  friend class Handover;
  using Blocks = std::map<CUdeviceptr, std::unique_ptr<Block>>;

  CUresult place(DeviceMemory& memory, std::uint64_t size, Block& out);
  std::vector<CUmemAccessDesc> access(const Block& block) const;
  Block* opened_block(const SharedName& name);
  CUdeviceptr open_part(Block& block, const SharedPart& part, const contexts::Context& context);
  CUresult allocate_block(DeviceMemory& memory, std::uint64_t size, CUdeviceptr& out);
  CUresult allocate_small(DeviceMemory& memory, std::uint64_t size, CUdeviceptr& out);
  std::optional<CUdeviceptr> take_from_slabs(int device, std::uint64_t size);
  std::uint64_t next_slab_size(const DeviceMemory& memory) const;
  void dispose(const Allocation& allocation);
  std::unique_ptr<Block> detach(Blocks::iterator block);
  void unmap(Block& block);
  bool release_parked();
  bool release_spares();
  CUresult set_access(int device, const CUmemAccessDesc& access);

  // Shared while blocks are made or released; exclusive while all blocks are changed (peers, handover).
  std::shared_mutex structure_;
  mutable std::mutex lock_;  // the members below; never held over a driver call that may wait
  std::vector<std::unique_ptr<DeviceMemory>> devices_;
  Blocks blocks_;
  std::map<CUdeviceptr, Block*> slabs_;  // those of blocks_ that small allocations share
  std::map<CUdeviceptr, Allocation> allocations_;
  std::vector<Allocation> parked_;
  std::vector<Allocation> probes_;  // the driver's own memory, see probe_capture()
  std::uint64_t next_id_;
  Peers peers_;  // under structure_

  Arena();
};

}  // namespace torpor::arena
