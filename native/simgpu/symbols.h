// Every exported symbol by the name that cuGetProcAddress knows it by.
#pragma once

namespace sim {

// True for the functions in missing.cpp: exported, and CUDA_ERROR_NOT_SUPPORTED whatever the arguments.
bool is_missing(const void* function);

}  // namespace sim
