// Copies of two and three dimensions, and batches of copies.
#include "entry.h"
#include "transfer.h"

using namespace sim;

namespace {

// One side of a copy description. Arrays are among what is missing.
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

void copy_plane(const CUDA_MEMCPY2D* what, CUstream stream, DefaultStream zero, Return when) {
  require(what != nullptr);
  const auto& c = *what;
  uint64_t from_pitch = pitch_of(c.srcPitch, c.WidthInBytes, c.srcXInBytes);
  uint64_t to_pitch = pitch_of(c.dstPitch, c.WidthInBytes, c.dstXInBytes);
  Region from = start(c.srcMemoryType, c.srcHost, c.srcDevice, from_pitch, 0, c.srcY * from_pitch + c.srcXInBytes);
  Region to = start(c.dstMemoryType, c.dstHost, c.dstDevice, to_pitch, 0, c.dstY * to_pitch + c.dstXInBytes);
  copy(to, from, {c.WidthInBytes, c.Height, 1}, stream, zero, when);
}

// Serves the plain and the peer description: their fields have the same names.
template <typename Description>
void copy_box(const Description* what, CUstream stream, DefaultStream zero, Return when) {
  require(what != nullptr);
  const auto& c = *what;
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
  copy(to, from, {c.WidthInBytes, c.Height, c.Depth}, stream, zero, when);
}

void copy_batch(const CUdeviceptr* to, const CUdeviceptr* from, const size_t* sizes, size_t count, CUstream stream,
                DefaultStream zero, size_t* failed) {
  require(to != nullptr && from != nullptr && sizes != nullptr && count != 0);
  require(stream != nullptr && stream != CU_STREAM_LEGACY, CUDA_ERROR_INVALID_HANDLE);
  for (size_t i = 0; i < count; ++i) {
    if (failed != nullptr) *failed = i;
    copy({to[i], 0, 0, Side::either}, {from[i], 0, 0, Side::either}, {sizes[i]}, stream, zero, Return::at_once);
  }
  if (failed != nullptr) *failed = SIZE_MAX;
}

}  // namespace

SIM_STREAM_API(cuMemcpy2D_v2, _ptds, wait, (const CUDA_MEMCPY2D* what), (what)) {
  copy_plane(what, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpy2DUnaligned_v2, _ptds, wait, (const CUDA_MEMCPY2D* what), (what)) {
  copy_plane(what, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpy2DAsync_v2, _ptsz, wait, (const CUDA_MEMCPY2D* what, CUstream stream), (what, stream)) {
  copy_plane(what, stream, zero, Return::at_once);
}

SIM_STREAM_API(cuMemcpy3D_v2, _ptds, wait, (const CUDA_MEMCPY3D* what), (what)) {
  copy_box(what, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpy3DAsync_v2, _ptsz, wait, (const CUDA_MEMCPY3D* what, CUstream stream), (what, stream)) {
  copy_box(what, stream, zero, Return::at_once);
}

SIM_STREAM_API(cuMemcpy3DPeer, _ptds, wait, (const CUDA_MEMCPY3D_PEER* what), (what)) {
  copy_box(what, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpy3DPeerAsync, _ptsz, wait, (const CUDA_MEMCPY3D_PEER* what, CUstream stream), (what, stream)) {
  copy_box(what, stream, zero, Return::at_once);
}

SIM_STREAM_API(cuMemcpyBatchAsync, _ptsz, wait,
               (CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count, CUmemcpyAttributes* attributes,
                size_t* indices, size_t attribute_count, size_t* failed, CUstream stream),
               (to, from, sizes, count, attributes, indices, attribute_count, failed, stream)) {
  require(attributes != nullptr && indices != nullptr && attribute_count != 0 && attribute_count <= count);
  copy_batch(to, from, sizes, count, stream, zero, failed);
}

SIM_STREAM_API(cuMemcpyBatchAsync_v2, _ptsz, wait,
               (CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count, CUmemcpyAttributes* attributes,
                size_t* indices, size_t attribute_count, CUstream stream),
               (to, from, sizes, count, attributes, indices, attribute_count, stream)) {
  require(attributes != nullptr && indices != nullptr && attribute_count != 0 && attribute_count <= count);
  copy_batch(to, from, sizes, count, stream, zero, nullptr);
}
