#include "fat_binary.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

#include "failure.h"

namespace sim {

namespace {

constexpr uint32_t wrapper_magic = 0x466243b1, fat_magic = 0xba55ed50;

struct FatWrapper {
  uint32_t magic, version;
  const void* data;
  const void* more;
};

struct FatHeader {
  uint32_t magic;
  uint16_t version, header_size;
  uint64_t size;  // of all entries
};

struct FatEntryHeader {
  uint16_t kind, version;
  uint32_t header_size;
  uint64_t size;             // of what follows the header
  uint32_t compressed_size;  // without the padding
  uint32_t reserved;
  uint16_t minor, major;
  uint32_t architecture;
  uint32_t name_offset, name_size;
  uint64_t flags;
  uint64_t reserved2;
  uint64_t full_size;        // when compressed
};
static_assert(sizeof(FatEntryHeader) == 64);

constexpr uint16_t kind_ptx = 1;
constexpr uint64_t flag_lz4 = 0x2000, flag_zstd = 0x8000;
constexpr uint64_t most_text = uint64_t{1} << 30;

// LZ4: reads a length that goes on in further bytes while they are 255.
bool extended(std::span<const uint8_t> from, size_t& at, size_t& length) {
  for (uint8_t byte = 255; byte == 255; length += byte) {
    if (at == from.size()) return false;
    byte = from[at++];
  }
  return true;
}

// An LZ4 block. False when it is broken or gives another size.
bool unpack_lz4(std::span<const uint8_t> from, std::span<uint8_t> to) {
  size_t in = 0, out = 0;
  while (in < from.size()) {
    uint8_t token = from[in++];
    size_t literals = token >> 4, match = token & 15;
    if (literals == 15 && !extended(from, in, literals)) return false;
    if (literals > from.size() - in || literals > to.size() - out) return false;
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(in), literals, to.begin() + static_cast<ptrdiff_t>(out));
    in += literals;
    out += literals;
    if (in == from.size()) break;
    if (from.size() - in < 2) return false;
    size_t distance = from[in] | static_cast<size_t>(from[in + 1]) << 8;
    in += 2;
    if (match == 15 && !extended(from, in, match)) return false;
    match += 4;
    if (distance == 0 || distance > out || match > to.size() - out) return false;
    for (; match != 0; --match, ++out) to[out] = to[out - distance];
  }
  return out == to.size();
}

// The system's zstd library, loaded when it is first needed and kept: nothing else here depends on it.
struct Zstd {
  size_t (*decompress)(void* to, size_t room, const void* from, size_t size) = nullptr;
  unsigned (*is_error)(size_t result) = nullptr;
  std::string missing;  // why there is none

  Zstd() {
    void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      decompress = reinterpret_cast<decltype(decompress)>(dlsym(library, "ZSTD_decompress"));
      is_error = reinterpret_cast<decltype(is_error)>(dlsym(library, "ZSTD_isError"));
    }
    if (decompress != nullptr && is_error != nullptr) return;
    const char* why = dlerror();
    missing = "the PTX in this fat binary is compressed with zstd, and libzstd.so.1 cannot be loaded (" +
              std::string(why != nullptr ? why : "no reason given") +
              "): install it (Debian: libzstd1), or build with nvcc --compress-mode=speed";
    std::fprintf(stderr, "torpor simgpu: %s\n", missing.c_str());
  }
};

bool unpack_zstd(std::span<const uint8_t> from, std::span<uint8_t> to, std::string& log) {
  static const Zstd* zstd = new Zstd;  // never destroyed: calls may come from exit handlers
  if (!zstd->missing.empty()) {
    log = zstd->missing;
    fail(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
  }
  size_t result = zstd->decompress(to.data(), to.size(), from.data(), from.size());
  return zstd->is_error(result) == 0 && result == to.size();
}

uint32_t magic_of(const void* image) {
  uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  return magic;
}

std::string text_of(const FatEntry& entry, std::string& log) {
  std::string text;
  if (entry.packing == Packing::plain) {
    text.assign(reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size());
  } else {
    text.resize(entry.full_size);
    std::span<uint8_t> to(reinterpret_cast<uint8_t*>(text.data()), text.size());
    bool good = entry.packing == Packing::lz4 ? unpack_lz4(entry.payload, to) : unpack_zstd(entry.payload, to, log);
    require(good, CUDA_ERROR_INVALID_IMAGE);
  }
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

}  // namespace

bool is_fat_binary(const void* image) {
  const uint32_t magic = magic_of(image);
  return magic == wrapper_magic || magic == fat_magic;
}

std::vector<FatEntry> entries_of(const void* fat) {
  if (magic_of(fat) == wrapper_magic) {
    FatWrapper wrapper;
    std::memcpy(&wrapper, fat, sizeof wrapper);
    require(wrapper.data != nullptr, CUDA_ERROR_INVALID_IMAGE);
    fat = wrapper.data;
  }
  FatHeader header;
  std::memcpy(&header, fat, sizeof header);
  require(header.magic == fat_magic && header.version == 1 && header.header_size >= sizeof header,
          CUDA_ERROR_INVALID_IMAGE);
  const auto* at = static_cast<const uint8_t*>(fat) + header.header_size;
  uint64_t left = header.size;
  std::vector<FatEntry> entries;
  while (left >= sizeof(FatEntryHeader)) {
    FatEntryHeader entry;
    std::memcpy(&entry, at, sizeof entry);
    require(entry.header_size >= sizeof entry && entry.header_size <= left && entry.size <= left - entry.header_size,
            CUDA_ERROR_INVALID_IMAGE);
    const uint64_t stored = entry.compressed_size != 0 ? entry.compressed_size : entry.size;
    if (entry.kind == kind_ptx) {
      require(stored <= entry.size && entry.full_size <= most_text, CUDA_ERROR_INVALID_IMAGE);
      const Packing packing = (entry.flags & flag_zstd)  ? Packing::zstd
                              : (entry.flags & flag_lz4) ? Packing::lz4
                                                         : Packing::plain;
      entries.push_back({entry.architecture, packing, {at + entry.header_size, stored}, entry.full_size});
    }
    at += entry.header_size + entry.size;
    left -= entry.header_size + entry.size;
  }
  return entries;
}

std::string text_for(const std::vector<FatEntry>& entries, unsigned architecture, std::string& log) {
  const FatEntry* best = nullptr;
  for (const FatEntry& entry : entries) {
    if (architecture != 0 && entry.architecture > architecture) continue;
    if (best == nullptr || entry.architecture > best->architecture) best = &entry;
  }
  require(best != nullptr, CUDA_ERROR_NO_BINARY_FOR_GPU);
  return text_of(*best, log);
}

}  // namespace sim
