// The part of an entry that a missing call goes through too.
#pragma once

namespace sim {

// Fault points and initialisation as in every call, then CUDA_ERROR_NOT_SUPPORTED. A CUresult.
int answer_missing(const char* symbol);

}  // namespace sim
