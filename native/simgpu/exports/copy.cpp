// Copies of one dimension.
#include "entry.h"
#include "transfer.h"

using namespace sim;

namespace {

Region line(uint64_t address, Side side) { return {address, 0, 0, side}; }
Region line(const void* pointer) { return line(reinterpret_cast<uint64_t>(pointer), Side::host); }

// Peer copies name contexts; what matters is where the memory is.
void check_context(CUcontext handle) {
  Section section;
  process().contexts.find(handle, CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace

SIM_STREAM_API(cuMemcpy, _ptds, wait, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size)) {
  copy(line(to, Side::either), line(from, Side::either), {size}, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpyHtoD_v2, _ptds, wait, (CUdeviceptr to, const void* from, size_t size), (to, from, size)) {
  copy(line(to, Side::device), line(from), {size}, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpyDtoH_v2, _ptds, wait, (void* to, CUdeviceptr from, size_t size), (to, from, size)) {
  copy(line(to), line(from, Side::device), {size}, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpyDtoD_v2, _ptds, wait, (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size)) {
  copy(line(to, Side::device), line(from, Side::device), {size}, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpyPeer, _ptds, wait,
               (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size),
               (to, to_context, from, from_context, size)) {
  check_context(to_context);
  check_context(from_context);
  copy(line(to, Side::device), line(from, Side::device), {size}, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpyAsync, _ptsz, wait, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
               (to, from, size, stream)) {
  copy(line(to, Side::either), line(from, Side::either), {size}, stream, zero, Return::at_once);
}

SIM_STREAM_API(cuMemcpyHtoDAsync_v2, _ptsz, wait, (CUdeviceptr to, const void* from, size_t size, CUstream stream),
               (to, from, size, stream)) {
  copy(line(to, Side::device), line(from), {size}, stream, zero, Return::at_once);
}

SIM_STREAM_API(cuMemcpyDtoHAsync_v2, _ptsz, wait, (void* to, CUdeviceptr from, size_t size, CUstream stream),
               (to, from, size, stream)) {
  copy(line(to), line(from, Side::device), {size}, stream, zero, Return::at_once);
}

SIM_STREAM_API(cuMemcpyDtoDAsync_v2, _ptsz, wait, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
               (to, from, size, stream)) {
  copy(line(to, Side::device), line(from, Side::device), {size}, stream, zero, Return::at_once);
}

SIM_STREAM_API(cuMemcpyPeerAsync, _ptsz, wait,
               (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size,
                CUstream stream),
               (to, to_context, from, from_context, size, stream)) {
  check_context(to_context);
  check_context(from_context);
  copy(line(to, Side::device), line(from, Side::device), {size}, stream, zero, Return::at_once);
}
