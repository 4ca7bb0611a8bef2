// The names that cuGetProcAddress may be asked for.
#pragma once

#include "../generated/symbols.h"

namespace torpor {

// The first row of kAnswers for a name; null where our data does not have it. Any thread; a few nanoseconds.
const Answer* answers_for(const char* name);

// What answers_for() says as a number that no other name has; 0 for null.
inline std::uint64_t number_of(const Answer* row) {
  return row != nullptr ? static_cast<std::uint64_t>(row - kAnswers) + 1 : 0;
}

}  // namespace torpor
