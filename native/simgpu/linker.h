// What the linker calls have gathered.
#pragma once

#include <string>
#include <vector>

#include "abi.h"

namespace sim {

struct Linker {
  std::vector<std::string> texts;     // one per input
  std::string image;                  // what `cuLinkComplete` made; lives until the linker is destroyed
  std::vector<CUjit_option> options;
  void** values = nullptr;            // the program's: must stay valid as long as the linker
  std::vector<void*> given;           // as they were: the sizes of the logs are overwritten by what is written
};

}  // namespace sim
