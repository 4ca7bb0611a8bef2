#include "copy_description.h"

#include "failure.h"

namespace sim {

namespace {

// One side of a copy. Arrays are among what is missing.
Region start(CUmemorytype type, const void* host, CUdeviceptr device, uint64_t pitch, uint64_t slice, uint64_t offset) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return {reinterpret_cast<uint64_t>(host) + offset, pitch, slice, Side::host};
    case CU_MEMORYTYPE_DEVICE:
      return {device + offset, pitch, slice, Side::device};
    case CU_MEMORYTYPE_UNIFIED:
      return {device + offset, pitch, slice, Side::either};
    case CU_MEMORYTYPE_ARRAY:
      fail(CUDA_ERROR_NOT_SUPPORTED);
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

// A pitch of 0 stands for rows without a gap; a pitch below the width is refused.
uint64_t pitch_of(uint64_t pitch, uint64_t width, uint64_t x) {
  require(pitch == 0 || pitch >= width + x);
  return pitch != 0 ? pitch : width + x;
}

// Serves the plain and the peer description: their fields have the same names.
template <typename Description>
Transfer box_of(const Description& c) {
  require(c.srcLOD == 0 && c.dstLOD == 0);
  auto slice_of = [&](uint64_t pitch, uint64_t height, uint64_t y) {
    require(c.Depth <= 1 || height == 0 || height >= c.Height + y);
    return pitch * (height != 0 ? height : c.Height + y);
  };
  uint64_t from_pitch = pitch_of(c.srcPitch, c.WidthInBytes, c.srcXInBytes);
  uint64_t to_pitch = pitch_of(c.dstPitch, c.WidthInBytes, c.dstXInBytes);
  uint64_t from_slice = slice_of(from_pitch, c.srcHeight, c.srcY);
  uint64_t to_slice = slice_of(to_pitch, c.dstHeight, c.dstY);
  Region from = start(c.srcMemoryType, c.srcHost, c.srcDevice, from_pitch, from_slice,
                      c.srcZ * from_slice + c.srcY * from_pitch + c.srcXInBytes);
  Region to = start(c.dstMemoryType, c.dstHost, c.dstDevice, to_pitch, to_slice,
                    c.dstZ * to_slice + c.dstY * to_pitch + c.dstXInBytes);
  return {to, from, {c.WidthInBytes, c.Height, c.Depth}};
}

CUmemorytype type_of(Side side) {
  if (side == Side::device) return CU_MEMORYTYPE_DEVICE;
  return side == Side::host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
}

}  // namespace

Transfer transfer_of(const CUDA_MEMCPY2D& c) {
  uint64_t from_pitch = pitch_of(c.srcPitch, c.WidthInBytes, c.srcXInBytes);
  uint64_t to_pitch = pitch_of(c.dstPitch, c.WidthInBytes, c.dstXInBytes);
  Region from = start(c.srcMemoryType, c.srcHost, c.srcDevice, from_pitch, 0, c.srcY * from_pitch + c.srcXInBytes);
  Region to = start(c.dstMemoryType, c.dstHost, c.dstDevice, to_pitch, 0, c.dstY * to_pitch + c.dstXInBytes);
  return {to, from, {c.WidthInBytes, c.Height, 1}};
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
