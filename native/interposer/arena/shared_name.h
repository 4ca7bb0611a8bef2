// What a block is called in other processes of the job. No padding: programs compare handles byte by byte.
#pragma once

#include <cstdint>

namespace torpor::arena {

struct SharedName {
  std::int64_t pid = 0;      // of the process that made it, as the job sees it
  std::uint64_t nonce = 0;   // of that process: process ids come again
  std::uint64_t block = 0;   // Block::id
  bool operator==(const SharedName&) const = default;
};

// This process's pid and nonce; the nonce is chosen at the first call.
SharedName own_name();

}  // namespace torpor::arena
