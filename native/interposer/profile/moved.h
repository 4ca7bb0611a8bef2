// How many bytes a call moves, and which way, read off its arguments. A call that fails moves nothing.
#pragma once

#include <tuple>

#include "../../abi/cuda_driver.h"
#include "tables.h"

namespace torpor::profile {

inline void add_bytes(Table& table, Direction direction, std::uint64_t count) {
  add(table.bytes[static_cast<std::uint32_t>(direction)], count);
}

struct Nothing {
  template <typename... Arguments>
  static void note(Table&, const Arguments&...) {}
};

// One argument is the number of bytes.
template <Direction kDirection, std::size_t kSize>
struct Linear {
  template <typename... Arguments>
  static void note(Table& table, const Arguments&... arguments) {
    add_bytes(table, kDirection, std::get<kSize>(std::tie(arguments...)));
  }
};

// One argument is an array of sizes, another one its length.
template <Direction kDirection, std::size_t kSizes, std::size_t kCount>
struct Batch {
  template <typename... Arguments>
  static void note(Table& table, const Arguments&... arguments) {
    const auto all = std::tie(arguments...);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < std::get<kCount>(all); ++i) bytes += std::get<kSizes>(all)[i];
    add_bytes(table, kDirection, bytes);
  }
};

// The product of these arguments is the number of elements.
template <std::uint64_t kElement, std::size_t... kSizes>
struct Fill {
  template <typename... Arguments>
  static void note(Table& table, const Arguments&... arguments) {
    const auto all = std::tie(arguments...);
    add_bytes(table, Direction::fill, (kElement * ... * static_cast<std::uint64_t>(std::get<kSizes>(all))));
  }
};

inline Direction direction_of(CUmemorytype from, CUmemorytype to) {
  if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED) return Direction::unified;
  if (from == CU_MEMORYTYPE_HOST) return to == CU_MEMORYTYPE_HOST ? Direction::host_to_host : Direction::host_to_device;
  return to == CU_MEMORYTYPE_HOST ? Direction::device_to_host : Direction::device_to_device;
}

// The first argument points to a description of the copy.
struct Described {
  template <typename Description, typename... Rest>
  static void note(Table& table, const Description* description, const Rest&...) {
    std::uint64_t bytes = std::uint64_t{description->WidthInBytes} * description->Height;
    if constexpr (requires { description->Depth; }) bytes *= description->Depth;
    add_bytes(table, direction_of(description->srcMemoryType, description->dstMemoryType), bytes);
  }
};

}  // namespace torpor::profile
