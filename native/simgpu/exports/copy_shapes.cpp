// Copies of two and three dimensions, and batches of copies.
#include "entry.h"
#include "copy_description.h"
#include "transfer.h"

using namespace sim;

namespace {

void copy_plane(const CUDA_MEMCPY2D* what, CUstream stream, DefaultStream zero, Return when) {
  require(what != nullptr);
  Transfer asked = transfer_of(*what);
  copy(asked.to, asked.from, asked.extent, stream, zero, when);
}

// Serves the plain and the peer description.
template <typename Description>
void copy_box(const Description* what, CUstream stream, DefaultStream zero, Return when) {
  require(what != nullptr);
  Transfer asked = transfer_of(*what);
  copy(asked.to, asked.from, asked.extent, stream, zero, when);
}

// Whether each entry says how it is, from which copy on, in order.
void check_attributes(const CUmemcpyAttributes* attributes, const size_t* indices, size_t attribute_count, size_t count) {
  require(attributes != nullptr && indices != nullptr && attribute_count != 0 && attribute_count <= count);
  for (size_t i = 0; i < attribute_count; ++i) {
    const CUmemcpySrcAccessOrder order = attributes[i].srcAccessOrder;
    require(order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
    require(i == 0 ? indices[0] == 0 : indices[i] > indices[i - 1]);
    require(indices[i] < count);
  }
}

// Neither the legacy stream nor a capture takes a batch; the capture goes on without it.
void check_stream(CUstream handle, DefaultStream zero) {
  const Section section;
  const std::shared_ptr<Stream> stream = current_context()->stream(handle, zero);
  require(stream != current_context()->stream(CU_STREAM_LEGACY, zero));
  require(!stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void copy_batch(const CUdeviceptr* to, const CUdeviceptr* from, const size_t* sizes, size_t count, CUstream stream,
                DefaultStream zero, size_t* failed) {
  require(to != nullptr && from != nullptr && sizes != nullptr && count != 0);
  check_stream(stream, zero);
  for (size_t i = 0; i < count; ++i) {
    if (failed != nullptr) *failed = i;
    require(sizes[i] != 0);
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
  check_attributes(attributes, indices, attribute_count, count);
  copy_batch(to, from, sizes, count, stream, zero, failed);
}

SIM_STREAM_API(cuMemcpyBatchAsync_v2, _ptsz, wait,
               (CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count, CUmemcpyAttributes* attributes,
                size_t* indices, size_t attribute_count, CUstream stream),
               (to, from, sizes, count, attributes, indices, attribute_count, stream)) {
  check_attributes(attributes, indices, attribute_count, count);
  copy_batch(to, from, sizes, count, stream, zero, nullptr);
}
