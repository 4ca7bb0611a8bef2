// cuMemset in all its forms.
#include "entry.h"
#include "transfer.h"

using namespace sim;

namespace {

Region plane(CUdeviceptr to, size_t pitch = 0) { return {to, pitch, 0, Side::device}; }

Extent row(size_t count, unsigned element) {
  require(count <= SIZE_MAX / element);
  return {count * element};
}

Extent rows(size_t width, size_t height, unsigned element) {
  Extent extent = row(width, element);
  extent.rows = height;
  return extent;
}

}  // namespace

#define FILLS(bits, type)                                                                                              \
  SIM_STREAM_API(cuMemsetD##bits##_v2, _ptds, wait, (CUdeviceptr to, type value, size_t count), (to, value, count)) {  \
    fill(plane(to), row(count, sizeof(type)), {value, sizeof(type)}, nullptr, zero, Return::after);                    \
  }                                                                                                                    \
  SIM_STREAM_API(cuMemsetD##bits##Async, _ptsz, wait, (CUdeviceptr to, type value, size_t count, CUstream stream),     \
                 (to, value, count, stream)) {                                                                         \
    fill(plane(to), row(count, sizeof(type)), {value, sizeof(type)}, stream, zero, Return::at_once);                   \
  }                                                                                                                    \
  SIM_STREAM_API(cuMemsetD2D##bits##_v2, _ptds, wait,                                                                  \
                 (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),                              \
                 (to, pitch, value, width, height)) {                                                                  \
    fill(plane(to, pitch), rows(width, height, sizeof(type)), {value, sizeof(type)}, nullptr, zero, Return::after);    \
  }                                                                                                                    \
  SIM_STREAM_API(cuMemsetD2D##bits##Async, _ptsz, wait,                                                                \
                 (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream),             \
                 (to, pitch, value, width, height, stream)) {                                                          \
    fill(plane(to, pitch), rows(width, height, sizeof(type)), {value, sizeof(type)}, stream, zero, Return::at_once);   \
  }

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)
