// Which variables of a module image are managed (`__managed__`), for images that can be read without unpacking anything.
#pragma once

#include <string>
#include <vector>

namespace torpor {

// The names of managed variables in PTX text (ended by a zero) or in a cubin; empty for everything else. A fat binary's
// code is mostly compressed: who hands over one (the CUDA runtime) asks for its managed variables itself.
// Reads the whole text, or the symbols of the cubin alone. Throws std::bad_alloc.
std::vector<std::string> managed_names(const void* image);

// The same of a file.
std::vector<std::string> managed_names_in_file(const char* path);

}  // namespace torpor
