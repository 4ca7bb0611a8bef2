// HELLO: what this process is, and what it holds that a checkpoint has to know of.
#include <unistd.h>

#include <numeric>

#include "../arena/handover.h"
#include "../generated/real.h"
#include "../hooks/residual.h"
#include "../hooks/unknown.h"
#include "../pinned/owned.h"
#include "../pinned/registered.h"
#include "../vm/answers.h"
#include "../vm/merging.h"
#include "../vm/policy.h"
#include "../vm/queue.h"
#include "operations.h"
#include "replies.h"

namespace torpor::control {
namespace {

std::string uuid_text(const CUuuid& uuid) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

void write_residual(Json& json, const arena::Totals& blocks) {
  const residual::Snapshot live = residual::snapshot();
  json.key("residual").object().field("managed", std::uint64_t{live.managed});
  json.field("managed_variables", std::uint64_t{live.managed_variables});
  json.field("ipc_exported", std::uint64_t{live.ipc_exported}).field("ipc_imported", std::uint64_t{live.ipc_imported});
  json.field("vmm_imported", std::uint64_t{live.vmm_imported}).field("multicast", std::uint64_t{live.multicast});
  json.field("external", std::uint64_t{live.external});
  json.field("sharing_lost", blocks.unshareable).end_object();
  json.field("capturing", std::uint64_t{live.capturing});
}

void write_unknown(Json& json) {
  const UnknownSymbols& unknown = unknown_symbols();
  json.key("unknown_symbols").array();
  const std::uint32_t count = unknown.count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) json.text(unknown.names[i]);
  json.end_array();
}

}  // namespace

const char* text(State state) {
  switch (state) {
    case State::running:
      return "running";
    case State::frozen:
      return "frozen";
    case State::away:
      return "away";
  }
  return "";
}

void write_devices(Json& json) {
  int count = 0;
  if (real::cuDeviceGetCount(&count) != CUDA_SUCCESS) count = 0;
  json.key("devices").array();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUuuid uuid{};
    CUdevice device = 0;
    if (real::cuDeviceGet(&device, ordinal) != CUDA_SUCCESS) continue;
    if (real::cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS) continue;
    json.object().field("ordinal", static_cast<std::uint64_t>(ordinal)).field("uuid", uuid_text(uuid)).end_object();
  }
  json.end_array();
}

void write_vm(Json& json) {
  const vm::Counts counts = vm::counts();
  json.key("vm").object().field("deferred", counts.deferred).field("straight", counts.straight);
  const auto dropped = [&](vm::Drop why) { return counts.dropped[static_cast<std::uint32_t>(why)]; };
  json.field("dropped", std::reduce(counts.dropped.begin(), counts.dropped.end()));
  json.field("dropped_settings", dropped(vm::Drop::setting)).field("dropped_waits", dropped(vm::Drop::wait));
  json.field("dropped_records", dropped(vm::Drop::record));
  json.field("waits", counts.waits).field("deepest", counts.deepest).field("queued", counts.queued);
  const vm::answers::Totals answers = vm::answers::totals();
  json.field("answered", answers.answered).field("wrong", answers.wrong);
  const vm::merging::Counts merging = vm::merging::counts();
  json.field("merged", merging.merged).field("merged_graphs", merging.graphs).field("fallbacks", merging.fallbacks);
  json.field("submitting_ns", counts.submitting_ns).field("waiting_ns", counts.waiting_ns);
  json.field("saved_ns", counts.submitting_ns + merging.saved_ns);
  json.field("lost_ns", counts.waiting_ns + counts.deferred * vm::kEnqueueNs).end_object();
}

Reply Operations::hello() const {
  int version = 0;
  if (real::cuDriverGetVersion(&version) != CUDA_SUCCESS) version = 0;
  const arena::Totals blocks = arena::Handover::totals();
  Json json(kMaxPayload);
  json.object().field("protocol", std::uint64_t{kVersion}).field("pid", static_cast<std::uint64_t>(::getpid()));
  json.field("state", text(state_)).key("arena").boolean(arena::Handover::enabled());
  json.field("driver_version", static_cast<std::uint64_t>(version));
  write_devices(json);
  json.key("blocks").object().field("count", blocks.count).field("bytes", blocks.bytes);
  json.field("largest", blocks.largest).field("imported", blocks.imported).end_object();
  const pinned::Totals pinned = pinned::totals(), registered = pinned::registered::totals();
  json.key("pinned").object().field("count", pinned.count + registered.count);
  json.field("bytes", pinned.bytes + registered.bytes).end_object();
  write_residual(json, blocks);
  write_vm(json);
  write_unknown(json);
  json.end_object();
  if (!json.whole()) return refused(kSystem, "the answer does not fit a packet");
  return done(json);
}

}  // namespace torpor::control
