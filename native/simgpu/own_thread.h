// Threads of ours inside the program's process.
#pragma once

#include <functional>

namespace sim {

// Starts a detached thread with every signal blocked, so that the program's handlers never run on it. `name` is a
// literal.
// Throws CUDA_ERROR_OPERATING_SYSTEM when the kernel gives no thread.
void start_own_thread(const char* name, std::function<void()> body);

}  // namespace sim
