// One device's addresses and handles: where blocks can be put, and how their memory is made.
//
// Thread safe. Talks to the real driver; needs cuInit and no context.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "../../abi/cuda_driver.h"
#include "ranges.h"

namespace torpor::arena {

class DeviceMemory {
 public:
  // Asks what the device can do; reserves nothing yet.
  explicit DeviceMemory(int ordinal);

  int ordinal() const { return ordinal_; }
  // False when the device cannot make exportable memory at chosen addresses: its allocations stay the driver's.
  bool usable() const { return granularity_ != 0; }
  // Sizes and addresses of blocks are multiples of this.
  std::uint64_t granularity() const { return granularity_; }

  // Free addresses for a block of `size` bytes, a multiple of the granularity; a further reservation is made when
  // those at hand are full. Nothing when the driver gives none.
  std::optional<CUdeviceptr> take_address(std::uint64_t size);
  void give_address(CUdeviceptr address, std::uint64_t size);
  bool contains(CUdeviceptr address) const;

  // Exportable memory of `size` bytes. The caller releases the handle.
  CUresult create(std::uint64_t size, CUmemGenericAllocationHandle& out) const;

 private:
  bool reserve(std::uint64_t at_least);

  int ordinal_;
  std::uint64_t granularity_ = 0;
  bool rdma_ = false;
  bool decompression_ = false;
  mutable std::mutex lock_;
  std::vector<Ranges> reservations_;
};

// Maps a handle at an address and opens it for the devices in `access`; on failure nothing stays mapped.
CUresult map(CUdeviceptr address, std::uint64_t size, CUmemGenericAllocationHandle handle,
             std::span<const CUmemAccessDesc> access);

}  // namespace torpor::arena
