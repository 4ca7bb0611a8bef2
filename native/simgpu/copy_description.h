// The driver's descriptions of copies, and ours.
#pragma once

#include "abi.h"
#include "transfer.h"

namespace sim {

// Throws CUDA_ERROR_INVALID_VALUE for a description that makes no sense, CUDA_ERROR_INVALID_HANDLE for an array that is
// none. An array becomes the device memory that it lies in.
Transfer transfer_of(const CUDA_MEMCPY2D& what);
Transfer transfer_of(const CUDA_MEMCPY3D& what);
Transfer transfer_of(const CUDA_MEMCPY3D_PEER& what);

// As a captured copy is read back from its node.
CUDA_MEMCPY3D described(const Transfer& transfer);

}  // namespace sim
