// The CUPTI of this process.
#pragma once

#include <string>

#include "records.h"

namespace torpor::cupti {

struct Library {
  std::string path;  // as the loader knows it; empty where there is no CUPTI

  Status (*register_callbacks)(Requested, Completed) = nullptr;
  Status (*enable)(std::uint32_t kind) = nullptr;
  Status (*next_record)(std::uint8_t* buffer, std::size_t valid, Record** record) = nullptr;
  Status (*flush_all)(std::uint32_t which) = nullptr;
  Status (*dropped)(void* context, std::uint32_t stream, std::size_t* count) = nullptr;
  Status (*text_of)(Status status, const char** text) = nullptr;

  // "cuptiActivityEnable: CUPTI_ERROR_…", for a call that did not answer kDone.
  std::string failure(const char* call, Status status) const;
};

// Finds and loads it: the file that TORPOR_CUPTI names, else the one that the process has already, else what the loader
// finds, else the one of a toolkit in CUDA_HOME, CUDA_PATH or /usr/local/cuda. Empty `path` when there is none, or it
// lacks a function; `why` says so then.
Library find(std::string& why);

}  // namespace torpor::cupti
