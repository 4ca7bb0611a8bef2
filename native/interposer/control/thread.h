// Threads of ours inside the program: no signal of the program's is ever delivered to one.
#pragma once

namespace torpor::control {

// Starts a detached thread; `name` has at most 15 characters. False when the system gives none.
bool start_thread(const char* name, void (*body)());

}  // namespace torpor::control
