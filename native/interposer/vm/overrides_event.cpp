// Events: records and waits are deferred, or left out where nobody can tell.
#include <atomic>

#include "../generated/hooks.h"
#include "../hooks/residual_key.h"
#include "../share/events.h"
#include "defer.h"
#include "forget.h"
#include "recordings.h"

namespace torpor::vm {
namespace {

struct Recording {
  CUevent event;
  CUstream stream;
  unsigned flags;
};

// Flags are part of what the driver judges.
Key key_of(Call call, const Recording& what) {
  Key key;
  key.call = call;
  key.object = reinterpret_cast<std::uint64_t>(what.event);
  key.shared_bytes = what.flags;
  return key;
}

// Whether another process may be told, when a call returns, that the event was recorded or is waited for.
bool is_shared(CUevent event) {
  const std::uint64_t key = residual::key(event);
  return share::events::contains(event) || residual::contains(residual::Kind::ipc_exported, key) ||
         residual::contains(residual::Kind::ipc_imported, key);
}

constinit std::atomic<bool> sharing{false};

template <typename Straight>
CUresult record(CUresult (*call)(Item&), const Recording& what, Straight straight) {
  const auto unseen = [&] {
    return recordings::unseen([&] {
      const bool external = (what.flags & CU_EVENT_RECORD_EXTERNAL) != 0;
      return share::events::record(what.event, what.stream, external, share::events::kLegacy, straight);
    });
  };
  if (!willing()) return go_straight(unseen);
  const auto proven = [&](Turn& turn, Item& item, CUcontext context) {
    // With flags it may mean more than it says.
    if (what.flags != 0) {
      recordings::forget_event(reinterpret_cast<std::uint64_t>(what.event));
      return Way::queue;
    }
    const auto earlier = recordings::record(what.event, context, what.stream, item.number);
    if (earlier) turn.supersede(*earlier);
    return Way::queue;
  };
  return defer_proven(key_of(Call::event_record, what), what.stream, call, what, unseen,
                      [&] { return !is_shared(what.event); }, proven);
}

}  // namespace
}  // namespace torpor::vm

void torpor::vm::share_event() {
  sharing.store(true);
  look_at_events();
  forget_all();
}

bool torpor::vm::events_are_shared() { return sharing.load(); }

using namespace torpor::vm;
namespace events = torpor::share::events;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuEventRecord(CUevent hEvent, CUstream hStream) {
  const auto call = [](Item& item) {
    const auto it = arguments_of<Recording>(item);
    return real::cuEventRecord(it.event, it.stream);
  };
  return record(call, {hEvent, hStream, 0}, [&] { return real::cuEventRecord(hEvent, hStream); });
}

extern "C" CUresult torpor_hook_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  const auto call = [](Item& item) {
    const auto it = arguments_of<Recording>(item);
    return real::cuEventRecordWithFlags(it.event, it.stream, it.flags);
  };
  return record(call, {hEvent, hStream, flags}, [&] { return real::cuEventRecordWithFlags(hEvent, hStream, flags); });
}

extern "C" CUresult torpor_hook_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  const auto straight = [&] {
    return events::wait(hStream, hEvent, (Flags & CU_EVENT_WAIT_EXTERNAL) != 0, events::kLegacy,
                        [&](CUevent event) { return real::cuStreamWaitEvent(hStream, event, Flags); });
  };
  if (!willing()) return go_straight(straight);
  const auto call = [](Item& item) {
    const auto it = arguments_of<Recording>(item);
    return real::cuStreamWaitEvent(it.stream, it.event, it.flags);
  };
  const Recording what{hEvent, hStream, Flags};
  const auto proven = [&](Turn&, Item&, CUcontext context) {
    if (Flags != 0) recordings::forget_event(reinterpret_cast<std::uint64_t>(hEvent));
    if (!recordings::is_past(hEvent, context, hStream)) return Way::queue;
    count_dropped(Drop::wait);
    return Way::nowhere;
  };
  return defer_proven(key_of(Call::event_wait, what), hStream, call, what, straight, [&] { return !is_shared(hEvent); },
                      proven);
}

extern "C" CUresult torpor_hook_cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
  return recordings::unseen([&] { return real::cuGraphLaunch_ptsz(hGraphExec, hStream); });
}
