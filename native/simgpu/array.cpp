#include "array.h"

#include <algorithm>
#include <mutex>

#include "linear.h"
#include "process.h"

namespace sim {

namespace {

// Apart from the other registries, with a lock of its own: copies look arrays up before they take the process lock.
struct Arrays {
  std::mutex mutex;
  Registry<Array, CUarray> known;
};

Arrays& arrays() {
  static Arrays* instance = new Arrays;  // never destroyed, like the process
  return *instance;
}

constexpr unsigned known_flags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
                                 CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE |
                                 CUDA_ARRAY3D_COLOR_ATTACHMENT;
constexpr uint64_t most_elements = 131072, most_rows = 65536, most_in_a_box = 16384, most_layers = 2048;

unsigned element_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      fail(CUDA_ERROR_NOT_SUPPORTED);
  }
}

void check(const CUDA_ARRAY3D_DESCRIPTOR& a) {
  require((a.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) == 0, CUDA_ERROR_NOT_SUPPORTED);
  require((a.Flags & ~known_flags) == 0);
  require(a.NumChannels == 1 || a.NumChannels == 2 || a.NumChannels == 4);
  require(a.Width != 0 && a.Width <= most_elements && a.Height <= most_rows);
  const bool layered = (a.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  if (layered) {
    require(a.Depth != 0 && a.Depth <= most_layers);
    require((a.Flags & CUDA_ARRAY3D_CUBEMAP) == 0 || (a.Width == a.Height && a.Depth % 6 == 0));
  } else if (a.Depth != 0) {
    require(a.Height != 0 && std::max({a.Width, a.Height, a.Depth}) <= most_in_a_box);
  }
}

}  // namespace

CUarray make_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& described) {
  check(described);
  auto array = std::make_shared<Array>(Array{&context, described});
  array->row = described.Width * described.NumChannels * element_bytes(described.Format);
  array->rows = std::max<uint64_t>(described.Height, 1);
  array->layers = std::max<uint64_t>(described.Depth, 1);
  // Like a module's variables: device memory of the context that the program has no way to free.
  array->base = make_linear(process(), Kind::variable, context.device, &context, array->bytes())->base;
  std::lock_guard lock(arrays().mutex);
  return arrays().known.add(std::move(array));
}

void destroy_array(CUarray handle) {
  std::lock_guard lock(arrays().mutex);
  process().memory.remove(arrays().known.remove(handle, CUDA_ERROR_INVALID_HANDLE)->base);
}

void destroy_arrays_of(const Context& context) {
  std::lock_guard lock(arrays().mutex);
  arrays().known.remove_if([&](const Array& array) { return array.context == &context; });
}

std::shared_ptr<const Array> array_named(CUarray handle) {
  std::lock_guard lock(arrays().mutex);
  return arrays().known.find(handle, CUDA_ERROR_INVALID_HANDLE);
}

Region region_of(CUarray handle, uint64_t x, uint64_t y, uint64_t z, const Extent& extent) {
  const auto array = array_named(handle);
  const auto inside = [](uint64_t from, uint64_t count, uint64_t all) { return from <= all && count <= all - from; };
  require(inside(x, extent.width, array->row) && inside(y, extent.rows, array->rows) &&
          inside(z, extent.layers, array->layers));
  const uint64_t slice = array->row * array->rows;
  return {array->base + z * slice + y * array->row + x, array->row, slice, Side::device};
}

Region line_of(CUarray handle, uint64_t offset, uint64_t size) {
  const auto array = array_named(handle);
  require(array->rows == 1 && array->layers == 1);
  require(offset <= array->row && size <= array->row - offset);
  return {array->base + offset, 0, 0, Side::device};
}

}  // namespace sim
