#include "copy_description.h"

#include "array.h"
#include "failure.h"

namespace sim {

namespace {

// One side of a copy in the words of the call; `rows` is the height that a layer has in memory.
struct Place {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  uint64_t pitch, rows, x, y, z;
};

// A pitch of 0 stands for rows without a gap; a pitch below the width is refused. Arrays have a pitch of their own.
Region region(const Place& at, const Extent& extent) {
  if (at.type == CU_MEMORYTYPE_ARRAY) return region_of(at.array, at.x, at.y, at.z, extent);
  require(at.pitch == 0 || at.pitch >= extent.width + at.x);
  const uint64_t pitch = at.pitch != 0 ? at.pitch : extent.width + at.x;
  require(extent.layers <= 1 || at.rows == 0 || at.rows >= extent.rows + at.y);
  const uint64_t slice = pitch * (at.rows != 0 ? at.rows : extent.rows + at.y);
  const uint64_t offset = at.z * slice + at.y * pitch + at.x;
  switch (at.type) {
    case CU_MEMORYTYPE_HOST:
      return {reinterpret_cast<uint64_t>(at.host) + offset, pitch, slice, Side::host};
    case CU_MEMORYTYPE_DEVICE:
      return {at.device + offset, pitch, slice, Side::device};
    case CU_MEMORYTYPE_UNIFIED:
      return {at.device + offset, pitch, slice, Side::either};
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

// Serves the plain and the peer description: their fields have the same names.
template <typename Description>
Transfer box_of(const Description& c) {
  require(c.srcLOD == 0 && c.dstLOD == 0);
  const Extent extent{c.WidthInBytes, c.Height, c.Depth};
  const Place from{c.srcMemoryType, c.srcHost,      c.srcDevice, c.srcArray, c.srcPitch,
                   c.srcHeight,     c.srcXInBytes, c.srcY,      c.srcZ};
  const Place to{c.dstMemoryType, c.dstHost,      c.dstDevice, c.dstArray, c.dstPitch,
                 c.dstHeight,     c.dstXInBytes, c.dstY,      c.dstZ};
  return {region(to, extent), region(from, extent), extent};
}

CUmemorytype type_of(Side side) {
  if (side == Side::device) return CU_MEMORYTYPE_DEVICE;
  return side == Side::host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
}

}  // namespace

Transfer transfer_of(const CUDA_MEMCPY2D& c) {
  const Extent extent{c.WidthInBytes, c.Height, 1};
  const Place from{c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch, 0, c.srcXInBytes, c.srcY, 0};
  const Place to{c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch, 0, c.dstXInBytes, c.dstY, 0};
  return {region(to, extent), region(from, extent), extent};
}

Transfer transfer_of(const CUDA_MEMCPY3D& what) { return box_of(what); }
Transfer transfer_of(const CUDA_MEMCPY3D_PEER& what) { return box_of(what); }

CUDA_MEMCPY3D described(const Transfer& transfer) {
  auto [to, from, extent] = transfer;
  CUDA_MEMCPY3D what{};
  what.srcMemoryType = type_of(from.side);
  what.dstMemoryType = type_of(to.side);
  what.srcHost = from.side == Side::host ? reinterpret_cast<const void*>(from.address) : nullptr;
  what.dstHost = to.side == Side::host ? reinterpret_cast<void*>(to.address) : nullptr;
  what.srcDevice = from.side == Side::host ? 0 : from.address;
  what.dstDevice = to.side == Side::host ? 0 : to.address;
  what.srcPitch = from.pitch;
  what.dstPitch = to.pitch;
  what.srcHeight = from.pitch != 0 ? from.slice / from.pitch : 0;
  what.dstHeight = to.pitch != 0 ? to.slice / to.pitch : 0;
  what.WidthInBytes = extent.width;
  what.Height = extent.rows;
  what.Depth = extent.layers;
  return what;
}

}  // namespace sim
