// Memory pools and stream-ordered allocation.
#include "capture.h"
#include "entry.h"
#include "linear.h"

using namespace sim;

namespace {

std::shared_ptr<Pool> named(CUmemoryPool handle) { return process().pools.find(handle, CUDA_ERROR_INVALID_VALUE); }

std::shared_ptr<Pool> current_pool(Device& device) { return device.current_pool; }

Device& device_of(const CUmemLocation& location) {
  require(location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
  return process().device(location.id);
}

void make_current(Device& device, std::shared_ptr<Pool> pool) {
  require(&pool->device == &device);
  device.current_pool = std::move(pool);
}

CUdeviceptr captured_allocation(size_t size, Stream& stream, Device& device) {
  CUDA_MEM_ALLOC_NODE_PARAMS what{};
  what.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, device.ordinal};
  what.bytesize = size;
  require(!stream.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  AllocOp op = allocation_node(what);
  CUdeviceptr address = op.what.dptr;
  captured(stream, std::move(op));
  return address;
}

// Usable at once: new memory needs no order with earlier work of the stream.
CUdeviceptr allocate(size_t size, const std::shared_ptr<Pool>& pool, CUstream handle, DefaultStream zero) {
  require(size != 0);
  std::shared_ptr<Stream> stream = current_context()->stream(handle, zero);
  if (stream->capture) return captured_allocation(size, *stream, pool->device);
  AllocationRef made = make_linear(process(), Kind::pooled, pool->device, nullptr, size);
  pool->took(made->size);
  made->pool = pool;
  return made->base;
}

}  // namespace

SIM_STREAM_API(cuMemAllocAsync, _ptsz, change, (CUdeviceptr* out, size_t size, CUstream stream), (out, size, stream)) {
  require(out != nullptr);
  *out = allocate(size, current_pool(current_context()->device), stream, zero);
}

SIM_STREAM_API(cuMemAllocFromPoolAsync, _ptsz, change,
               (CUdeviceptr* out, size_t size, CUmemoryPool pool, CUstream stream), (out, size, pool, stream)) {
  require(out != nullptr);
  *out = allocate(size, named(pool), stream, zero);
}

SIM_STREAM_API(cuMemFreeAsync, _ptsz, change, (CUdeviceptr address, CUstream handle), (address, handle)) {
  if (address == 0) return;
  std::shared_ptr<Stream> stream = current_context()->stream(handle, zero);
  if (!stream->capture) {  // seen on an H200: asked before anything else is
    forbid_captured(*stream);
    forbid_unsafe();
  }
  AllocationRef found = process().memory.starting_at(address);
  require(found && (found->kind == Kind::pooled || found->kind == Kind::linear) && !found->freeing);
  capture_or_carry_out(stream, FreeOp{address});
}

SIM_API(cuDeviceGetDefaultMemPool, query, (CUmemoryPool* out, CUdevice device), (out, device)) {
  require(out != nullptr);
  *out = process().device(device).default_pool->handle();
}

SIM_API(cuDeviceGetMemPool, query, (CUmemoryPool* out, CUdevice device), (out, device)) {
  require(out != nullptr);
  *out = process().device(device).current_pool->handle();
}

SIM_API(cuDeviceSetMemPool, change, (CUdevice ordinal, CUmemoryPool handle), (ordinal, handle)) {
  make_current(process().device(ordinal), named(handle));
}

// The same by location, as newer programs ask. Only devices have pools here.

SIM_API(cuMemGetDefaultMemPool, query, (CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type),
        (out, location, type)) {
  require(out != nullptr && location != nullptr && type == CU_MEM_ALLOCATION_TYPE_PINNED);
  *out = device_of(*location).default_pool->handle();
}

SIM_API(cuMemGetMemPool, query, (CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type),
        (out, location, type)) {
  require(out != nullptr && location != nullptr && type == CU_MEM_ALLOCATION_TYPE_PINNED);
  *out = device_of(*location).current_pool->handle();
}

SIM_API(cuMemSetMemPool, change, (CUmemLocation* location, CUmemAllocationType type, CUmemoryPool handle),
        (location, type, handle)) {
  require(location != nullptr && type == CU_MEM_ALLOCATION_TYPE_PINNED);
  make_current(device_of(*location), named(handle));
}

SIM_API(cuMemPoolCreate, change, (CUmemoryPool* out, const CUmemPoolProps* properties), (out, properties)) {
  require(out != nullptr && properties != nullptr && properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED);
  require(properties->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
  *out = process().pools.add(make_pool(device_of(properties->location), false));
}

SIM_API(cuMemPoolDestroy, change, (CUmemoryPool handle), (handle)) {
  std::shared_ptr<Pool> pool = named(handle);
  require(!pool->is_default);
  if (pool->device.current_pool == pool) pool->device.current_pool = pool->device.default_pool;
  process().pools.remove(handle, CUDA_ERROR_INVALID_VALUE);
}

// Nothing is kept back, so there is nothing to trim.
SIM_API(cuMemPoolTrimTo, change, (CUmemoryPool pool, size_t), (pool, 0)) { named(pool); }

SIM_API(cuMemPoolSetAttribute, change, (CUmemoryPool handle, CUmemPool_attribute attribute, void* value),
        (handle, attribute, value)) {
  require(value != nullptr);
  std::shared_ptr<Pool> pool = named(handle);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->settings[attribute] = static_cast<uint64_t>(*static_cast<const int*>(value));
      return;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->settings[attribute] = *static_cast<const cuuint64_t*>(value);
      return;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      require(*static_cast<const cuuint64_t*>(value) == 0);
      pool->used_high = pool->used.load();
      return;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

SIM_API(cuMemPoolGetAttribute, query, (CUmemoryPool handle, CUmemPool_attribute attribute, void* value),
        (handle, attribute, value)) {
  require(value != nullptr);
  std::shared_ptr<Pool> pool = named(handle);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) = static_cast<int>(pool->settings[attribute]);
      return;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *static_cast<cuuint64_t*>(value) = pool->settings[attribute];
      return;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *static_cast<cuuint64_t*>(value) = pool->used;
      return;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *static_cast<cuuint64_t*>(value) = pool->used_high;
      return;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

SIM_API(cuMemPoolSetAccess, change, (CUmemoryPool handle, const CUmemAccessDesc* wanted, size_t count),
        (handle, wanted, count)) {
  require(wanted != nullptr || count == 0);
  std::shared_ptr<Pool> pool = named(handle);
  for (size_t i = 0; i < count; ++i) device_of(wanted[i].location);
  for (size_t i = 0; i < count; ++i) pool->access[{wanted[i].location.type, wanted[i].location.id}] = wanted[i].flags;
}

SIM_API(cuMemPoolGetAccess, query, (CUmemAccess_flags* out, CUmemoryPool handle, CUmemLocation* location),
        (out, handle, location)) {
  require(out != nullptr && location != nullptr);
  std::shared_ptr<Pool> pool = named(handle);
  bool own = &device_of(*location) == &pool->device;
  auto found = pool->access.find({location->type, location->id});
  if (own) *out = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  else *out = found == pool->access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
}
