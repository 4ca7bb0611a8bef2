// What the linker calls have gathered.
#pragma once

#include <string>
#include <vector>

#include "abi.h"

namespace sim {

struct Linker {
  std::string image;                  // the program's; lives until the linker is destroyed, as what it completes does
  std::vector<CUjit_option> options;
  void** values = nullptr;            // the program's: must stay valid as long as the linker
};

}  // namespace sim
