// CUDA arrays, and copies of one dimension between them and other memory.
#include "array.h"

#include "capture.h"
#include "entry.h"

using namespace sim;

namespace {

CUarray create(const CUDA_ARRAY3D_DESCRIPTOR& described) {
  std::shared_ptr<Context> context = current_context();
  forbid_unsafe();
  return make_array(*context, described);
}

Region host(const void* pointer) { return {reinterpret_cast<uint64_t>(pointer), 0, 0, Side::host}; }
Region device(CUdeviceptr address) { return {address, 0, 0, Side::device}; }

}  // namespace

SIM_API(cuArrayCreate_v2, change, (CUarray* out, const CUDA_ARRAY_DESCRIPTOR* what), (out, what)) {
  require(out != nullptr && what != nullptr);
  *out = create({what->Width, what->Height, 0, what->Format, what->NumChannels, 0});
}

SIM_API(cuArray3DCreate_v2, change, (CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* what), (out, what)) {
  require(out != nullptr && what != nullptr);
  *out = create(*what);
}

SIM_API(cuArrayDestroy, change, (CUarray handle), (handle)) { destroy_array(handle); }

SIM_API(cuArrayGetDescriptor_v2, query, (CUDA_ARRAY_DESCRIPTOR* out, CUarray handle), (out, handle)) {
  require(out != nullptr);
  const CUDA_ARRAY3D_DESCRIPTOR& found = array_named(handle)->described;
  *out = {found.Width, found.Height, found.Format, found.NumChannels};
}

SIM_API(cuArray3DGetDescriptor_v2, query, (CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle), (out, handle)) {
  require(out != nullptr);
  *out = array_named(handle)->described;
}

SIM_API(cuArrayGetMemoryRequirements, query, (CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray handle, CUdevice ordinal),
        (out, handle, ordinal)) {
  require(out != nullptr);
  process().device(ordinal);
  *out = {};
  out->alignment = granularity;
  out->size = (array_named(handle)->bytes() + granularity - 1) / granularity * granularity;
}

SIM_STREAM_API(cuMemcpyAtoA_v2, _ptds, wait,
               (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size),
               (to, to_offset, from, from_offset, size)) {
  copy(line_of(to, to_offset, size), line_of(from, from_offset, size), {size}, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpyAtoD_v2, _ptds, wait, (CUdeviceptr to, CUarray from, size_t offset, size_t size),
               (to, from, offset, size)) {
  copy(device(to), line_of(from, offset, size), {size}, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpyDtoA_v2, _ptds, wait, (CUarray to, size_t offset, CUdeviceptr from, size_t size),
               (to, offset, from, size)) {
  copy(line_of(to, offset, size), device(from), {size}, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpyAtoH_v2, _ptds, wait, (void* to, CUarray from, size_t offset, size_t size),
               (to, from, offset, size)) {
  copy(host(to), line_of(from, offset, size), {size}, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpyHtoA_v2, _ptds, wait, (CUarray to, size_t offset, const void* from, size_t size),
               (to, offset, from, size)) {
  copy(line_of(to, offset, size), host(from), {size}, nullptr, zero, Return::after);
}

SIM_STREAM_API(cuMemcpyAtoHAsync_v2, _ptsz, wait,
               (void* to, CUarray from, size_t offset, size_t size, CUstream stream), (to, from, offset, size, stream)) {
  copy(host(to), line_of(from, offset, size), {size}, stream, zero, Return::at_once);
}

SIM_STREAM_API(cuMemcpyHtoAAsync_v2, _ptsz, wait,
               (CUarray to, size_t offset, const void* from, size_t size, CUstream stream),
               (to, offset, from, size, stream)) {
  copy(line_of(to, offset, size), host(from), {size}, stream, zero, Return::at_once);
}
