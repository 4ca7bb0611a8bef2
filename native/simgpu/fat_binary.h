// Fat binaries, as nvcc writes them: code of several kinds and architectures, each entry plain or compressed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sim {

enum class Packing { plain, lz4, zstd };

// One PTX text of a fat binary; the payload lies in the program's memory.
struct FatEntry {
  unsigned architecture;
  Packing packing;
  std::span<const uint8_t> payload;
  uint64_t full_size;  // of a compressed one
};

bool is_fat_binary(const void* image);

// Its PTX entries. Throws CUDA_ERROR_INVALID_IMAGE.
std::vector<FatEntry> entries_of(const void* fat);

// The text that fits best: of the newest architecture up to `architecture` (90 for 9.0; 0: any). Throws
// CUDA_ERROR_NO_BINARY_FOR_GPU when none fits, CUDA_ERROR_INVALID_IMAGE when it cannot be unpacked, and
// CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, with a line in `log` and on standard error, when the zstd library is missing.
std::string text_for(const std::vector<FatEntry>& entries, unsigned architecture, std::string& log);

}  // namespace sim
