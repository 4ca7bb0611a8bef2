// Holding off the beginning of captures, for what a stream under capture does not bear.
#pragma once

#include <shared_mutex>

namespace torpor {

// Held exclusively while a capture begins. Whoever holds it shared and finds that none is active has none for as long as he does;
// he makes no call meanwhile that waits for the GPU.
std::shared_mutex& beginning_of_captures();

}  // namespace torpor
