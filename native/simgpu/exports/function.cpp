// What is asked of functions, and how much of them fits.
#include <algorithm>

#include "entry.h"
#include "module.h"
#include "occupancy.h"

using namespace sim;

namespace {

constexpr unsigned occupancy_flags = CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE;

void active_blocks(int* out, CUfunction handle, int threads, size_t shared, unsigned flags) {
  require(out != nullptr && threads > 0 && (flags & ~occupancy_flags) == 0);
  *out = static_cast<int>(blocks_that_fit(*function_of(handle), static_cast<unsigned>(threads), shared));
}

// The block size with the most threads at once on a multiprocessor; the larger one of two that are as good.
void best_block(int* grid, int* block, CUfunction handle, CUoccupancyB2DSize shared_for, size_t shared, int limit,
                unsigned flags) {
  std::shared_ptr<Function> function;
  {
    std::lock_guard lock(process().mutex);
    require(grid != nullptr && block != nullptr && (flags & ~occupancy_flags) == 0 && limit >= 0);
    function = function_of(handle);
  }
  int most = static_cast<int>(function->max_threads());
  if (limit != 0) most = std::min(most, limit);
  unsigned best = 0;
  for (int threads = most; threads > 0; threads = (threads - 1) / 32 * 32) {
    size_t dynamic = shared_for != nullptr ? shared_for(threads) : shared;
    unsigned fit = blocks_that_fit(*function, static_cast<unsigned>(threads), dynamic);
    if (fit * static_cast<unsigned>(threads) <= best) continue;
    best = fit * static_cast<unsigned>(threads);
    *block = threads;
    *grid = static_cast<int>(fit * processors(function->context.device));
  }
  require(best != 0);
}

}  // namespace

SIM_API(cuFuncGetAttribute, change, (int* out, CUfunction_attribute attribute, CUfunction handle),
        (out, attribute, handle)) {
  require(out != nullptr);
  *out = function_attribute(*function_anywhere(handle), attribute);
}

SIM_API(cuFuncSetAttribute, change, (CUfunction handle, CUfunction_attribute attribute, int value),
        (handle, attribute, value)) {
  std::shared_ptr<Function> function = function_anywhere(handle);
  set_attribute(function->settings, function->kernel, attribute, value);
}

SIM_API(cuFuncSetCacheConfig, change, (CUfunction handle, CUfunc_cache config), (handle, config)) {
  function_anywhere(handle);
  require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
}

SIM_API(cuFuncSetSharedMemConfig, change, (CUfunction handle, CUsharedconfig config), (handle, config)) {
  function_of(handle);
  require(config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE && config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
}

SIM_API(cuFuncGetModule, change, (CUmodule* out, CUfunction handle), (out, handle)) {
  require(out != nullptr);
  auto module = function_of(handle)->module.lock();
  require(module != nullptr, CUDA_ERROR_INVALID_HANDLE);
  *out = module->handle();
}

SIM_API(cuFuncGetName, change, (const char** out, CUfunction handle), (out, handle)) {
  require(out != nullptr);
  *out = function_of(handle)->kernel.name.c_str();
}

SIM_API(cuFuncGetParamInfo, change, (CUfunction handle, size_t index, size_t* offset, size_t* size),
        (handle, index, offset, size)) {
  const auto& parameters = function_of(handle)->kernel.parameters;
  require(offset != nullptr && index < parameters.size());
  *offset = parameters[index].offset;
  if (size != nullptr) *size = parameters[index].size;
}

// Everything is loaded with its module.
SIM_API(cuFuncIsLoaded, change, (CUfunctionLoadingState* out, CUfunction handle), (out, handle)) {
  require(out != nullptr);
  function_of(handle);
  *out = CU_FUNCTION_LOADING_STATE_LOADED;
}

SIM_API(cuFuncLoad, change, (CUfunction handle), (handle)) { function_of(handle); }

SIM_API(cuOccupancyMaxActiveBlocksPerMultiprocessor, change, (int* out, CUfunction handle, int threads, size_t shared),
        (out, handle, threads, shared)) {
  active_blocks(out, handle, threads, shared, 0);
}

SIM_API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, change,
        (int* out, CUfunction handle, int threads, size_t shared, unsigned flags),
        (out, handle, threads, shared, flags)) {
  active_blocks(out, handle, threads, shared, flags);
}

SIM_API(cuOccupancyMaxPotentialBlockSize, wait,
        (int* grid, int* block, CUfunction handle, CUoccupancyB2DSize shared_for, size_t shared, int limit),
        (grid, block, handle, shared_for, shared, limit)) {
  best_block(grid, block, handle, shared_for, shared, limit, 0);
}

SIM_API(cuOccupancyMaxPotentialBlockSizeWithFlags, wait,
        (int* grid, int* block, CUfunction handle, CUoccupancyB2DSize shared_for, size_t shared, int limit,
         unsigned flags),
        (grid, block, handle, shared_for, shared, limit, flags)) {
  best_block(grid, block, handle, shared_for, shared, limit, flags);
}

SIM_API(cuOccupancyAvailableDynamicSMemPerBlock, change, (size_t* out, CUfunction handle, int blocks, int threads),
        (out, handle, blocks, threads)) {
  require(out != nullptr && blocks > 0 && threads > 0);
  std::shared_ptr<Function> function = function_of(handle);
  auto wanted = static_cast<unsigned>(blocks);
  require(blocks_that_fit(*function, static_cast<unsigned>(threads), 0) >= wanted);
  size_t each = shared_of_processor / wanted - shared_reserved - static_shared(function->kernel);
  *out = std::min<size_t>(each, function->dynamic_shared_limit());
}
