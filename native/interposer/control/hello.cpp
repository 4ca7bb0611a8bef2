// HELLO: what this process is, and what it holds that a checkpoint has to know of.
#include <unistd.h>

#include "../arena/handover.h"
#include "../generated/real.h"
#include "../hooks/residual.h"
#include "../hooks/unknown.h"
#include "operations.h"
#include "replies.h"

namespace torpor::control {
namespace {

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

void write_residual(Json& json) {
  const residual::Snapshot live = residual::snapshot();
  json.key("residual").object().field("managed", std::uint64_t{live.managed});
  json.field("ipc_exported", std::uint64_t{live.ipc_exported}).field("ipc_imported", std::uint64_t{live.ipc_imported});
  json.field("vmm_imported", std::uint64_t{live.vmm_imported}).field("multicast", std::uint64_t{live.multicast});
  json.field("external", std::uint64_t{live.external}).end_object();
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
  write_residual(json);
  write_unknown(json);
  json.end_object();
  if (!json.whole()) return refused(kSystem, "the answer does not fit a packet");
  return done(json);
}

}  // namespace torpor::control
