// Learning how far streams are, so that what was freed in their order can be used by everybody. Everything here needs the
// lock of the books.
#pragma once

#include "pool_books.h"

namespace torpor::arena::pools {

void destroy(const std::vector<CUevent>& events);

// A fence behind all frees of a stream so far. Where the stream is no per-thread default one any thread may put it, as long as
// the stream is not captured.
void put_fence(const StreamKey& key, StreamPool::Lane& lane);

// What was freed before a fence that its stream has passed is for everybody.
void pass_fences(Pool& pool);
// And what was freed, by whomever, in a stream that has nothing under way.
void pass_idle(Pool& pool);
// All that is known; in streams of this thread that are busy fences are put for the next time.
void pass_what_is_done(Pool& pool);

}  // namespace torpor::arena::pools
