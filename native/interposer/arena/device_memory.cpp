#include "device_memory.h"

#include <algorithm>

#include "../generated/real.h"

namespace torpor::arena {
namespace {

constexpr std::uint64_t kTebibyte = 1ULL << 40;
constexpr std::uint64_t kFirstAddress = 0x600000000000;
constexpr std::uint64_t kSmallestReservation = 1ULL << 30;

bool has(CUdevice_attribute attribute, int device) {
  int value = 0;
  return real::cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

CUmemAllocationProp properties(int device, bool rdma, bool decompression) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  prop.allocFlags.gpuDirectRDMACapable = rdma ? 1 : 0;
  if (decompression) prop.allocFlags.usage |= CU_MEM_CREATE_USAGE_HW_DECOMPRESS;
  return prop;
}

}  // namespace

DeviceMemory::DeviceMemory(int ordinal) : ordinal_(ordinal) {
  if (!has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, ordinal) ||
      !has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, ordinal)) {
    return;
  }
  rdma_ = has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, ordinal);
  decompression_ = has(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, ordinal);
  const CUmemAllocationProp prop = properties(ordinal, rdma_, decompression_);
  std::size_t granularity = 0;
  if (real::cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS) {
    return;
  }
  // The arithmetic below rounds with masks.
  if (granularity != 0 && (granularity & (granularity - 1)) == 0) granularity_ = granularity;
}

bool DeviceMemory::reserve(std::uint64_t at_least) {
  const std::uint64_t smallest = std::max(kSmallestReservation, at_least);
  const std::uint64_t hint = kFirstAddress + static_cast<std::uint64_t>(ordinal_) * kTebibyte;
  for (std::uint64_t size = std::max(kTebibyte, at_least); size >= smallest; size /= 2) {
    const std::uint64_t length = size / granularity_ * granularity_;
    CUdeviceptr base = 0;
    if (real::cuMemAddressReserve(&base, length, granularity_, reservations_.empty() ? hint : 0, 0) == CUDA_SUCCESS) {
      reservations_.emplace_back(base, length, granularity_);
      return true;
    }
  }
  return false;
}

std::optional<CUdeviceptr> DeviceMemory::take_address(std::uint64_t size) {
  const std::lock_guard guard(lock_);
  for (Ranges& reservation : reservations_) {
    if (const auto start = reservation.take(size)) return start;
  }
  if (!reserve(size)) return std::nullopt;
  return reservations_.back().take(size);
}

void DeviceMemory::give_address(CUdeviceptr address, std::uint64_t size) {
  const std::lock_guard guard(lock_);
  for (Ranges& reservation : reservations_) {
    if (reservation.contains(address)) reservation.give(address, size);
  }
}

bool DeviceMemory::contains(CUdeviceptr address) const {
  const std::lock_guard guard(lock_);
  return std::any_of(reservations_.begin(), reservations_.end(),
                     [address](const Ranges& reservation) { return reservation.contains(address); });
}

CUresult DeviceMemory::create(std::uint64_t size, CUmemGenericAllocationHandle& out) const {
  const CUmemAllocationProp prop = properties(ordinal_, rdma_, decompression_);
  return real::cuMemCreate(&out, size, &prop, 0);
}

CUresult map(CUdeviceptr address, std::uint64_t size, CUmemGenericAllocationHandle handle,
             std::span<const CUmemAccessDesc> access) {
  CUresult result = real::cuMemMap(address, size, 0, handle, 0);
  if (result != CUDA_SUCCESS) return result;
  result = real::cuMemSetAccess(address, size, access.data(), access.size());
  if (result != CUDA_SUCCESS) real::cuMemUnmap(address, size);
  return result;
}

}  // namespace torpor::arena
