// Several PTX texts made into one, as a linker does it.
#pragma once

#include <span>
#include <string>

#include "ptx/program.h"

namespace sim::ptx {

// One module with everything that the texts define. What one text declares `.extern` is what another defines; of weak
// definitions one remains; names that are not visible outside their text stay apart. Empty when the texts do not fit
// together (`problem` says what is defined twice or nowhere) or are no PTX.
std::string join(std::span<const std::string> texts, Problem& problem);

}  // namespace sim::ptx
