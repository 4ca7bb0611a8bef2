// What the resolvers in generated/entries.S push: the symbol's index, and with this mark that of its exported function.
#pragma once

#include <cstdint>

namespace torpor {

inline constexpr std::uint32_t kEntryMark = 0x10000;

}  // namespace torpor
