#include "occupancy.h"

#include <algorithm>

#include "device.h"
#include "process.h"

namespace sim {

namespace {

constexpr unsigned warp = 32;

unsigned rounded(unsigned value, unsigned unit) { return (value + unit - 1) / unit * unit; }

// Registers are given out to whole warps, 256 at a time.
unsigned registers_of_block(const ptx::Kernel& kernel, unsigned threads) {
  return rounded(std::max(kernel.registers, 1u) * warp, 256) * (rounded(threads, warp) / warp);
}

// A required block shape is no limit of this kind.
unsigned most_threads(const ptx::Kernel& kernel) {
  bool limited = kernel.max_threads != 0 && kernel.required_block[0] == 0;
  unsigned most = limited ? kernel.max_threads : threads_of_block;
  unsigned warps = registers_of_processor / rounded(std::max(kernel.registers, 1u) * warp, 256);
  return std::min({most, warps * warp, threads_of_block});
}

}  // namespace

unsigned static_shared(const ptx::Kernel& kernel) { return rounded(kernel.shared_bytes, 16); }

unsigned processors(const Device& device) {
  return static_cast<unsigned>(attribute_of(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).value_or(1));
}

unsigned blocks_that_fit(const Function& function, unsigned threads, size_t dynamic_shared) {
  // The default limit counts here even where a lower one was set.
  unsigned fixed = static_shared(function.kernel);
  unsigned left = shared_by_default - std::min(shared_by_default, fixed);
  size_t most_shared = std::max(function.dynamic_shared_limit(), left);
  if (threads == 0 || threads > function.max_threads() || dynamic_shared > most_shared) return 0;
  size_t shared = fixed + dynamic_shared + shared_reserved;
  unsigned by_threads = threads_of_processor / rounded(threads, warp);
  unsigned by_registers = registers_of_processor / registers_of_block(function.kernel, threads);
  auto by_shared = static_cast<unsigned>(shared_of_processor / shared);
  return std::min({by_threads, by_registers, by_shared, blocks_of_processor});
}

unsigned blocks_on_device(const Function& function, unsigned threads, size_t dynamic_shared) {
  return blocks_that_fit(function, threads, dynamic_shared) * processors(function.context.device);
}

int kernel_attribute(const ptx::Kernel& kernel, const ptx::Program& program, const KernelSettings& settings,
                     const Device& device, CUfunction_attribute attribute) {
  auto number = [](auto value) { return static_cast<int>(value); };
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return number(most_threads(kernel));
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return number(static_shared(kernel));
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: {
      uint64_t bytes = 0;
      for (const auto& variable : program.variables)
        if (variable.space == ptx::Space::constant) bytes += variable.size;
      return number(bytes);
    }
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return number(kernel.local_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return number(kernel.registers);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return number(program.target);
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return device.spec.major * 10 + device.spec.minor;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      return 0;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (settings.dynamic_shared >= 0) return settings.dynamic_shared;
      return number(static_shared(kernel) < shared_by_default ? shared_by_default - static_shared(kernel) : 0);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return settings.carveout;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      return kernel.required_cluster[0] != 0;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return number(kernel.required_cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH]);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return settings.large_clusters;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return settings.scheduling;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

int function_attribute(const Function& function, CUfunction_attribute attribute) {
  return kernel_attribute(function.kernel, function.code->image.program(), function.settings, function.context.device,
                          attribute);
}

void set_attribute(KernelSettings& settings, const ptx::Kernel& kernel, CUfunction_attribute attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      require(value >= 0 && static_cast<unsigned>(value) + static_shared(kernel) <= shared_at_most);
      settings.dynamic_shared = value;
      return;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      require(value >= -1 && value <= 100);
      settings.carveout = value;
      return;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      require(value == 0 || value == 1, value < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED);
      return;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      settings.large_clusters = value != 0;
      return;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      require(value >= 0 && value <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
      settings.scheduling = value;
      return;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace sim
