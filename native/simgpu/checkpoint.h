// The steps of a checkpoint, carried out inside the process that is checkpointed.
#pragma once

#include "mailbox.h"

namespace sim {

// Starts the thread that answers other processes; once, at initialisation.
void serve_checkpoints();

// In a forked child, where that thread is not: closes what would make the child look like one that serves.
void stop_serving_in_child();

// Each throws CUDA_ERROR_ILLEGAL_STATE in any state but the one it starts from, and leaves the state as it was when
// it throws anything.

// Running → locked. New calls wait from now on; throws CUDA_ERROR_NOT_READY, and lets them go on, when the streams
// are not idle within the time.
void lock_process(Mailbox& mailbox);
// Locked → checkpointed. What is in device memory is in private memory of the process afterwards, and booked no more.
// Throws CUDA_ERROR_NOT_SUPPORTED when managed memory is alive.
void checkpoint_process(Mailbox& mailbox);
// Checkpointed → locked. Throws CUDA_ERROR_NOT_SUPPORTED when imported memory is mapped or held (for good: nothing
// can bring it back) or the new device is of another architecture, CUDA_ERROR_OUT_OF_MEMORY, and
// CUDA_ERROR_INVALID_VALUE when a UUID names no device.
void restore_process(Mailbox& mailbox);
// Locked → running.
void unlock_process(Mailbox& mailbox);

}  // namespace sim
