// Names and descriptions of statuses.
#pragma once

#include "abi.h"

namespace sim {

struct ErrorText {
  CUresult status;
  const char* name;
  const char* description;
};

// Null for a number that is no status.
const ErrorText* error_text(CUresult status);

}  // namespace sim
