// The control thread: what the keeper talks to (docs/design/control-protocol.md).
#pragma once

namespace torpor::control {

// Starts the thread and its socket `$TORPOR_JOB_DIR/ctl/<pid>`, once per process; does nothing outside a job. Called
// after each successful cuInit. A failure is logged and leaves the program alone: it runs on, but cannot be saved.
void start() noexcept;

}  // namespace torpor::control
