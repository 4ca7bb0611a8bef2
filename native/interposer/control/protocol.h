// The control protocol's wire layout; docs/design/control-protocol.md is the contract. Little-endian, packed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torpor::control {

inline constexpr std::uint32_t kMagic = 0x52505254;  // "TRPR"
inline constexpr std::uint16_t kVersion = 1;
inline constexpr std::size_t kMaxPacket = 64 * 1024;
inline constexpr std::size_t kMaxDescriptors = 64;

enum class Op : std::uint16_t { hello = 1, freeze = 2, export_blocks = 3, release = 4, take_back = 5, thaw = 6, profile = 7 };

enum Status : std::int32_t { kDone = 0, kBadRequest = -1, kWrongState = -2, kDeadline = -3, kSystem = -4 };

struct Header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t op;
  std::int32_t status;
  std::uint32_t length;
};
static_assert(sizeof(Header) == 16);

}  // namespace torpor::control
