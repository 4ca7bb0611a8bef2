// Faults on demand: what TORPOR_SIM_FAULT says (docs/simgpu.md has the grammar).
#pragma once

namespace sim {

// Called at the entry of every exported function, and of every step of a checkpoint inside the process that is
// checkpointed (names starting with "target:"). Throws the status that a fault asks for, waits, or kills the process.
void fault_point(const char* name);

}  // namespace sim
