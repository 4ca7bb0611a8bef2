// Launches of kernels: what is asked for, checked, and carried out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "abi.h"

namespace sim {

struct Function;
class Stream;

struct KernelOp {
  std::shared_ptr<Function> function;
  CUkernel kernel = nullptr;  // when it was named by a kernel of a library
  std::array<uint32_t, 3> grid{}, block{};
  uint32_t shared = 0;        // dynamic, bytes
  bool cooperative = false;
  std::vector<std::byte> parameters;
};

// The parameter buffer, from an array of pointers or from the list of names and values in `extra`. Throws
// CUDA_ERROR_INVALID_VALUE when it is neither or both, or has another size.
std::vector<std::byte> parameters_of(const Function& function, void* const* pointers, void* const* extra);

// Takes the attributes of a launch into account. Throws CUDA_ERROR_NOT_SUPPORTED for clusters of more than one block.
void apply_attributes(KernelOp& op, const CUlaunchAttribute* attributes, unsigned count);

// Throws CUDA_ERROR_INVALID_VALUE for dimensions and shared memory that no device of ours has,
// CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES for what this kernel cannot have, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
// CUDA_ERROR_INVALID_HANDLE when the module is gone.
void check(const KernelOp& op);

// Checked and ready to run in a stream. Under the process lock.
std::function<void(Stream&)> resolved(const KernelOp& op);

}  // namespace sim
