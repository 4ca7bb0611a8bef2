// To be called before an object's handle becomes invalid: the driver may give it to a new object at once.
#pragma once

#include "../../abi/cuda_driver.h"
#include "merging.h"
#include "policy.h"
#include "proofs.h"
#include "queue.h"
#include "recordings.h"

namespace torpor::vm {

template <typename Handle>
void forget_object(Handle object) {
  if (!in_use()) [[likely]] return;
  const Turn turn;
  proofs::forget_object(reinterpret_cast<std::uint64_t>(object));
  recordings::forget_event(reinterpret_cast<std::uint64_t>(object));
}

inline void forget_stream(CUstream stream) {
  if (!in_use()) [[likely]] return;
  merging::forget();
  const Turn turn;
  proofs::forget_stream(stream);
  recordings::forget_stream(stream);
}

// An event that a capture records can no longer be waited for outside of it.
inline void forget_waits() {
  if (!in_use()) [[likely]] return;
  const Turn turn;
  proofs::forget_waits();
  recordings::lose_sight();
}

// Other processes learn of this event by ways of their own: from now on the driver must know of it when a call returns.
void share_event();
bool events_are_shared();

// Everything that is known of functions: their attributes, too.
void forget_all();

}  // namespace torpor::vm
