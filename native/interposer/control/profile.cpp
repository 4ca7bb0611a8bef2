// PROFILE: count the program's calls from now on, or no more, and say what was counted.
#include "../profile/profile.h"

#include <unistd.h>

#include <cstring>

#include "busy.h"
#include "operations.h"
#include "replies.h"

namespace torpor::control {
namespace {

struct Wanted {
  std::uint32_t level;  // of profile::Level, or kAsItIs
  std::uint32_t lease_ms;
  std::uint64_t owner;
};
static_assert(sizeof(Wanted) == 16);
constexpr std::uint32_t kAsItIs = 3;

}  // namespace

Reply Operations::profile(const Packet& request) {
  Wanted wanted;
  if (request.payload.size() != sizeof wanted) return refused(kBadRequest, "PROFILE takes a level, a lease and who asks");
  std::memcpy(&wanted, request.payload.data(), sizeof wanted);
  if (wanted.level > kAsItIs) return refused(kBadRequest, "PROFILE knows the levels 0 to 3");
  if (wanted.level != kAsItIs &&
      !profile::set_level(static_cast<profile::Level>(wanted.level), wanted.owner, wanted.lease_ms)) {
    return refused(kWrongState, "calls of this process are being counted for somebody else");
  }
  Json json(kMaxPayload);
  json.object().field("pid", static_cast<std::uint64_t>(::getpid())).field("state", text(state_));
  if (state_ == State::running) write_devices(json);
  write_busy(json);
  write_vm(json);
  profile::write_counts(json);
  json.end_object();
  if (!json.whole()) return refused(kSystem, "the answer does not fit a packet");
  return done(json);
}

}  // namespace torpor::control
