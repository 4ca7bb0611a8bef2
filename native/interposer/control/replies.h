// Building replies: refusals with a message, and small JSON objects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "../../abi/cuda_driver.h"
#include "json.h"
#include "operations.h"

namespace torpor::control {

inline constexpr std::size_t kMaxPayload = kMaxPacket - sizeof(Header);

inline Reply done(const Json& json) { return {kDone, json.str(), {}}; }

inline Reply refused(std::int32_t status, std::string_view message) {
  Json json(kMaxPayload);
  json.object().field("message", message).end_object();
  return {status, json.str(), {}};
}

// Fields that several replies have: `devices` (asks the driver) and `vm`.
void write_devices(Json& json);
void write_vm(Json& json);

// "CUDA_ERROR_OUT_OF_MEMORY" for 2.
std::string name_of(CUresult result);

}  // namespace torpor::control
