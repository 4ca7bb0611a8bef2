// A memory barrier on every running thread of the process, paid for by the caller alone.
#pragma once

namespace torpor {

// When this returns, every other thread of the process has passed a full memory barrier since the call began.
// Registers with the kernel each time, since a restored process may have lost its registration. errno is kept.
void barrier_all_threads();

// What the first barrier begins with: the kernel takes milliseconds for it where other threads run. Best done early.
void prepare_barriers();

}  // namespace torpor
