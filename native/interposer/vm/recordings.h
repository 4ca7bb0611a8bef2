// What is known of events: where each was last recorded, as far as that went through the queue.
//
// It tells which waits change nothing, and which records nobody will ever look at. Forgetting is always safe: then the
// call is made. Callers hold a Turn or a Hold unless a function says otherwise.
#pragma once

#include <cstdint>
#include <optional>

#include "../../abi/cuda_driver.h"

namespace torpor::vm::recordings {

// Any event may have been recorded or waited for in a way that is not seen here: by a call that went straight, or by a graph.
// To be called before such a call and after it. Any thread.
void lose_sight();

// Notes that the item of that number records the event. Returns the number of the item that recorded it before when nothing
// in the queue depends on that one. It may have left the queue meanwhile.
std::optional<std::uint64_t> record(CUevent event, CUcontext context, CUstream stream, std::uint64_t number);

// Whether a wait changes nothing: the event was last recorded earlier on the same stream, or is known to have happened. If
// it does not, the event's last record has to stay.
bool is_past(CUevent event, CUcontext context, CUstream stream);

// Names the present record of an event, to be called before the queue is waited for; 0 when none is known. If the driver then
// says that the event has happened, `happened` takes note, unless it was recorded again.
std::uint64_t latest(CUevent event);
void happened(CUevent event, std::uint64_t record);

void forget_event(std::uint64_t handle);
void forget_stream(CUstream stream);

// Makes a call that may record events, or wait for them, unseen.
template <typename Call>
CUresult unseen(Call call) {
  lose_sight();
  const CUresult result = call();
  lose_sight();
  return result;
}

}  // namespace torpor::vm::recordings
