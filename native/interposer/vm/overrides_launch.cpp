// Launches of kernels, deferred with a copy of their parameters.
#include <algorithm>
#include <span>

#include "../generated/hooks.h"
#include "defer.h"
#include "launch.h"

namespace torpor::vm {
namespace {

// Limits on every architecture; the driver refuses more at the call.
bool grid_is_possible(const std::array<std::uint32_t, 3>& grid) {
  constexpr std::uint32_t kMostX = 0x7fffffff, kMostYZ = 65535;
  return std::ranges::all_of(grid, [](std::uint32_t size) { return size != 0; }) && grid[0] <= kMostX &&
         grid[1] <= kMostYZ && grid[2] <= kMostYZ;
}

// How many bytes of an attribute's value count; 0 for attributes that point somewhere or mean more than their value.
std::size_t size_of(CUlaunchAttributeID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      return sizeof CUlaunchAttributeValue{}.clusterDim;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      return sizeof(int);
    default:
      return 0;
  }
}

bool add_attributes(std::span<const CUlaunchAttribute> from, Launch& launch, Key& key) {
  if (from.size() > Key::kAttributes) return false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::size_t size = size_of(from[i].id);
    if (size == 0 || size > sizeof key.attributes[i].value) return false;
    launch.attributes[i] = from[i];
    key.attributes[i].id = static_cast<std::uint32_t>(from[i].id);
    std::memcpy(key.attributes[i].value.data(), &from[i].value, size);
  }
  if (!from.empty()) key.grid = launch.grid;
  launch.attribute_count = static_cast<std::uint32_t>(from.size());
  return true;
}

// A kernel's parameters as the program gave them: one pointer each, or all in one buffer.
bool copy_parameters(const Layout& layout, void** pointers, void** buffer, Item& item) {
  if (pointers != nullptr) {
    if (buffer != nullptr) return false;
    for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
      if (pointers[i] == nullptr) return false;
      std::memcpy(item.parameters + layout.parameters[i].offset, pointers[i], layout.parameters[i].size);
    }
    item.parameter_bytes = layout.bytes;
    return true;
  }
  if (buffer == nullptr) return layout.parameters.empty();
  const void* from = nullptr;
  const std::size_t* size = nullptr;
  for (; *buffer != CU_LAUNCH_PARAM_END; buffer += 2) {
    if (*buffer == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      from = buffer[1];
    } else if (*buffer == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      size = static_cast<const std::size_t*>(buffer[1]);
    } else {
      return false;
    }
  }
  // Any other size than the kernel's is for the driver to judge.
  if (from == nullptr || size == nullptr || *size != layout.bytes) return false;
  std::memcpy(item.parameters, from, layout.bytes);
  item.parameter_bytes = layout.bytes;
  return true;
}

}  // namespace

CUresult launch(Item& item) {
  auto arguments = arguments_of<Launch>(item);
  void* buffer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, item.parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &item.parameter_bytes,
                    CU_LAUNCH_PARAM_END};
  void** const extra = item.parameter_bytes != 0 ? buffer : nullptr;
  const auto& [gx, gy, gz] = arguments.grid;
  const auto& [bx, by, bz] = arguments.block;
  if (arguments.attribute_count == 0) {
    return real::cuLaunchKernel(arguments.function, gx, gy, gz, bx, by, bz, arguments.shared_bytes, arguments.stream, nullptr,
                                extra);
  }
  const CUlaunchConfig config{gx, gy, gz, bx, by, bz, arguments.shared_bytes, arguments.stream, arguments.attributes.data(),
                              arguments.attribute_count};
  return real::cuLaunchKernelEx(&config, arguments.function, nullptr, extra);
}

namespace {

template <typename Straight>
CUresult defer_launch(const Launch& arguments, Key& key, void** pointers, void** buffer, Straight straight) {
  const std::uint64_t generation = proofs::generation();
  const auto context = deferrable(arguments.stream);
  if (!context || !grid_is_possible(arguments.grid)) return go_straight(straight);
  key.call = Call::launch;
  key.shared_bytes = arguments.shared_bytes;
  key.object = reinterpret_cast<std::uint64_t>(arguments.function);
  key.context = reinterpret_cast<std::uint64_t>(*context);
  key.stream = reinterpret_cast<std::uint64_t>(arguments.stream);
  key.block = arguments.block;
  bool known = false;
  const Way way = enqueue(*context, launch, arguments, [&](Turn&, Item& item) {
    const Layout* layout = proofs::find(key);
    if (layout != nullptr && layout->grid_counts) {
      key.grid = arguments.grid;
      layout = proofs::find(key);
    }
    known = layout != nullptr;
    return known && copy_parameters(*layout, pointers, buffer, item) ? Way::queue : Way::straight;
  });
  if (way == Way::queue) return CUDA_SUCCESS;
  const CUresult result = go_straight(straight);
  if (result != CUDA_SUCCESS || known) return result;
  Layout layout;
  if (!layout_of(arguments.function, layout)) return result;
  if (layout.grid_counts) {
    prove(key, Layout{layout}, generation);
    key.grid = arguments.grid;
  }
  prove(key, std::move(layout), generation);
  return result;
}

}  // namespace
}  // namespace torpor::vm

namespace vm = torpor::vm;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                               unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                               unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                               void** kernelParams, void** extra) {
  const auto straight = [&] {
    return real::cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
                                kernelParams, extra);
  };
  if (!vm::willing()) return vm::go_straight(straight);
  return torpor::arena::guarded([&] {
    vm::Key key;
    const vm::Launch launch{f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, 0, hStream,
                            {}};
    return vm::defer_launch(launch, key, kernelParams, extra, straight);
  });
}

extern "C" CUresult torpor_hook_cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                                                 void** extra) {
  const auto straight = [&] { return real::cuLaunchKernelEx(config, f, kernelParams, extra); };
  if (!vm::willing() || config == nullptr) return vm::go_straight(straight);
  return torpor::arena::guarded([&] {
    vm::Key key;
    vm::Launch launch{f,
                      {config->gridDimX, config->gridDimY, config->gridDimZ},
                      {config->blockDimX, config->blockDimY, config->blockDimZ},
                      config->sharedMemBytes,
                      0,
                      config->hStream,
                      {}};
    const bool valid = config->numAttrs == 0 || config->attrs != nullptr;
    if (!valid || !vm::add_attributes({config->attrs, config->numAttrs}, launch, key)) return vm::go_straight(straight);
    return vm::defer_launch(launch, key, kernelParams, extra, straight);
  });
}
