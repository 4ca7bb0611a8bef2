// The thread that gives peers of the job the descriptors of blocks that this process shares, and tells of its events.
#pragma once

namespace torpor::share {

// Starts it once per process. False outside of a job, and when the system gives no thread or socket.
bool serve();

}  // namespace torpor::share
