// FREEZE: close the gate, wait until nobody is inside and every context is idle; or give all of it up again.
#include <algorithm>
#include <cstring>
#include <span>

#include "../arena/handover.h"
#include "../gate/gate.h"
#include "../hooks/residual.h"
#include "../prim/thread.h"
#include "../profile/profile.h"
#include "../vm/answers.h"
#include "../vm/merging.h"
#include "../vm/queue.h"
#include "drain.h"
#include "operations.h"
#include "replies.h"

namespace torpor::control {
namespace {

Reply late(std::string_view message, std::span<const gate::Inside> inside, const std::vector<int>& busy) {
  Json json(kMaxPayload);
  json.object().field("message", message).key("inside").array();
  for (const gate::Inside& each : inside) {
    json.object().field("tid", static_cast<std::uint64_t>(each.tid)).field("call", each.call).end_object();
  }
  json.end_array().key("busy").array();
  for (const int device : busy) json.number(static_cast<std::int64_t>(device));
  json.end_array().end_object();
  return {kDeadline, json.str(), {}};
}

std::span<const gate::Inside> named(const gate::Report& report) {
  return {report.inside, std::min(report.count, gate::Report::kNamed)};
}

std::uint64_t left_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(left, 0));
}

// Reopens the gate unless the freeze came to its end.
class Closed {
 public:
  ~Closed() {
    if (!kept_) gate::open();
  }
  void keep() { kept_ = true; }

 private:
  bool kept_ = false;
};

}  // namespace

Reply Operations::freeze(const Packet& request) {
  if (state_ != State::running) return refused(kWrongState, "FREEZE needs the running state");
  if (request.payload.size() != 4) return refused(kBadRequest, "FREEZE takes a deadline in milliseconds");
  std::uint32_t milliseconds;
  std::memcpy(&milliseconds, request.payload.data(), sizeof milliseconds);
  const auto start = Clock::now();
  const auto deadline = start + std::chrono::milliseconds(milliseconds);

  const gate::Report report = gate::close(milliseconds);
  if (!report.drained) return late("threads did not leave the driver in time", named(report), {});
  Closed closed;
  if (!vm::drained_by(thread::monotonic_microseconds() + left_until(deadline) * 1000)) {
    return late("deferred calls did not get into the driver in time", {}, {});
  }
  if (active_captures() > 0) return refused(kWrongState, "a stream capture is in progress; try again when it has ended");
  const Drained drained = drain(deadline);
  if (drained.end == Drained::End::deadline) return late("work on the GPU did not end in time", {}, drained.busy);
  if (drained.end == Drained::End::failed) {
    return refused(static_cast<std::int32_t>(drained.error),
                   "waiting for device " + std::to_string(drained.device) + " failed: " + name_of(drained.error));
  }
  // Their work has ended, so they are on their way out.
  const gate::Report waiting = gate::await_waiting(static_cast<std::uint32_t>(left_until(deadline)));
  if (!waiting.drained) return late("threads went on waiting although the GPU is idle", named(waiting), {});
  arena::Handover::settle();
  vm::merging::forget();  // graphs of ours are no part of an image
  vm::pause_answers();
  profile::frozen();
  closed.keep();
  state_ = State::frozen;
  const auto elapsed = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  Json json(kMaxPayload);
  return done(json.object().field("elapsed_us", static_cast<std::uint64_t>(elapsed.count())).end_object());
}

}  // namespace torpor::control
