// Keys of driver handles in the residual table.
#pragma once

#include <cstdint>

#include "../../abi/cuda_driver.h"
#include "residual.h"

namespace torpor::residual {

template <typename Handle>
std::uint64_t key(Handle* handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

inline std::uint64_t key(std::uint64_t address) { return address; }

// Notes `*made` if the call that was to make it succeeded.
template <typename Handle>
CUresult noted(CUresult result, Kind kind, const Handle* made) {
  if (result == CUDA_SUCCESS && made != nullptr) add(kind, key(*made));
  return result;
}

// Forgets `gone` if the call that was to destroy it succeeded.
template <typename Handle>
CUresult forgotten(CUresult result, Kind kind, Handle gone) {
  if (result == CUDA_SUCCESS) remove(kind, key(gone));
  return result;
}

}  // namespace torpor::residual
