// The driver's virtual memory management: blocks of physical memory, reserved addresses, mappings between them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "abi.h"
#include "address_map.h"
#include "descriptor.h"

namespace sim {

struct Device;

constexpr uint64_t granularity = uint64_t{2} << 20;

// One piece of physical memory: a memfd, so that another process can hold it and every mapping of it shows the same
// bytes. Lives as long as a handle or a mapping refers to it. While the process is checkpointed the bytes are in
// private memory instead, and the memfd is gone.
class Block {
 public:
  // New memory, zeroed. `device` null: host memory. Throws CUDA_ERROR_OUT_OF_MEMORY.
  Block(Device* device, uint64_t size, const CUmemAllocationProp& properties);
  // Memory of another process. Throws CUDA_ERROR_INVALID_VALUE when `fd` is no block.
  Block(int fd, const std::vector<std::unique_ptr<Device>>& devices);
  // New memory in the place of `size` bytes that are booked on the device already: from here on they are this block's.
  struct Booked {};
  Block(Booked, Device& device, uint64_t size, const CUmemAllocationProp& properties);
  ~Block();

  // A descriptor for the program to own. Throws CUDA_ERROR_INVALID_VALUE for imported memory.
  int export_descriptor();
  // Its descriptor is about to be found by other processes. Throws CUDA_ERROR_INVALID_VALUE for imported memory.
  void publish();

  void save();                       // bytes to private memory, memfd closed
  void recreate();                   // a memfd again, with the bytes; private memory kept until `settle`
  void settle(bool recreated);       // after all blocks: keep the memfd, or the private memory

  Device* const device;
  const uint64_t id;                 // the CUmemGenericAllocationHandle
  const uint64_t size;
  const CUmemAllocationProp properties;
  const bool imported;

  int fd() const { return fd_.get(); }
  uint64_t inode() const { return inode_; }  // of published and imported memory
  void abandon() { fd_.reset(); }    // in a forked child
  void give_up_booking();            // someone else answers for its bytes in the books
  unsigned handle_references = 0;

 private:
  void book();

  Descriptor fd_;
  uint64_t inode_ = 0;
  bool booked_ = true;
  bool shared_ = false;              // a descriptor may be elsewhere: booked by inode
  std::unique_ptr<PrivateMemory> saved_;
};

// Guarded by the process lock, like everything here.
class VirtualMemory {
 public:
  uint64_t reserve(uint64_t size, uint64_t alignment, uint64_t hint);
  void free_reservation(uint64_t base, uint64_t size);

  bool reserved(uint64_t address) const;

  CUmemGenericAllocationHandle add(std::shared_ptr<Block> block);  // with one reference
  std::shared_ptr<Block> find(CUmemGenericAllocationHandle handle) const;
  void retain(const std::shared_ptr<Block>& block);
  void release(CUmemGenericAllocationHandle handle);

  void map(AddressMap& memory, uint64_t base, uint64_t size, uint64_t offset, std::shared_ptr<Block> block);
  // The mappings that make up exactly [base, base + size); throws CUDA_ERROR_INVALID_VALUE.
  std::vector<AllocationRef> mappings(const AddressMap& memory, uint64_t base, uint64_t size) const;
  void unmap(AddressMap& memory, const std::vector<AllocationRef>& mappings);
  void set_access(const Allocation& mapping);  // makes the pages as accessible as `mapping.access` says

  // Every block that a handle or a mapping refers to, each once.
  std::vector<std::shared_ptr<Block>> blocks(const AddressMap& memory) const;

  // For checkpoints: all mappings (and opened memory) become bare reservations, and are made again from their blocks.
  void hide_mappings(const AddressMap& memory);
  void show_mappings(const AddressMap& memory);

 private:
  std::map<uint64_t, uint64_t> reservations_;  // size by base
  std::map<uint64_t, std::shared_ptr<Block>> handles_;
};

}  // namespace sim
