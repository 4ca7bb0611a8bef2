#include "image.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "failure.h"

namespace sim {

namespace {

constexpr uint32_t wrapper_magic = 0x466243b1, fat_magic = 0xba55ed50, elf_magic = 0x464c457f;

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

constexpr uint16_t kind_ptx = 1, elf_machine_cuda = 190;
constexpr uint64_t flag_lz4 = 0x2000, flag_zstd = 0x8000;
constexpr uint64_t most_text = uint64_t{1} << 30;

uint32_t magic_of(const void* image) {
  uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  return magic;
}

ProgramRef parsed(std::string_view text, std::string& log) {
  ptx::Problem problem;
  ProgramRef program = ptx::parse(text, problem);
  if (program) return program;
  log = problem.message();
  fail(problem.kind == ptx::Problem::Kind::unsupported_version ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                                               : CUDA_ERROR_INVALID_PTX);
}

bool looks_like_text(const char* text) {
  // Something printable, and a directive before anything binary.
  for (const char* at = text; *at != '\0'; ++at) {
    if (std::strncmp(at, ".version", 8) == 0) return true;
    auto byte = static_cast<unsigned char>(*at);
    if (byte < 32 && std::strchr("\t\n\v\f\r", *at) == nullptr) return false;
  }
  return false;
}

// Reads a length that goes on in further bytes while they are 255.
bool extended(std::span<const uint8_t> from, size_t& at, size_t& length) {
  for (uint8_t byte = 255; byte == 255; length += byte) {
    if (at == from.size()) return false;
    byte = from[at++];
  }
  return true;
}

}  // namespace

bool decompress(std::span<const uint8_t> from, std::span<uint8_t> to) {
  size_t in = 0, out = 0;
  while (in < from.size()) {
    uint8_t token = from[in++];
    size_t literals = token >> 4, match = token & 15;
    if (literals == 15 && !extended(from, in, literals)) return false;
    if (literals > from.size() - in || literals > to.size() - out) return false;
    std::memcpy(to.data() + out, from.data() + in, literals);
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

std::vector<FatEntry> texts_in_fat_binary(const void* fat) {
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
    const uint8_t* payload = at + entry.header_size;
    uint64_t stored = entry.compressed_size != 0 ? entry.compressed_size : entry.size;
    if (entry.kind == kind_ptx && (entry.flags & flag_zstd) == 0) {
      require(stored <= entry.size && entry.full_size <= most_text, CUDA_ERROR_INVALID_IMAGE);
      FatEntry found{entry.architecture, {}};
      if (entry.flags & flag_lz4) {
        found.text.resize(entry.full_size);
        std::span<uint8_t> to(reinterpret_cast<uint8_t*>(found.text.data()), found.text.size());
        require(decompress({payload, stored}, to), CUDA_ERROR_INVALID_IMAGE);
      } else {
        found.text.assign(reinterpret_cast<const char*>(payload), entry.size);
      }
      found.text.resize(std::min(found.text.size(), found.text.find('\0')));
      entries.push_back(std::move(found));
    }
    at = payload + entry.size;
    left -= entry.header_size + entry.size;
  }
  return entries;
}

ProgramRef read_image(const void* image, unsigned architecture, std::string& log) {
  require(image != nullptr);
  uint32_t magic = magic_of(image);
  if (magic == wrapper_magic || magic == fat_magic) {
    std::vector<FatEntry> entries = texts_in_fat_binary(image);
    if (architecture != 0) std::erase_if(entries, [&](const FatEntry& e) { return e.architecture > architecture; });
    auto newest = std::max_element(entries.begin(), entries.end(), [](const FatEntry& a, const FatEntry& b) {
      return a.architecture < b.architecture;
    });
    require(newest != entries.end(), CUDA_ERROR_NO_BINARY_FOR_GPU);
    return parsed(newest->text, log);
  }
  if (magic == elf_magic) {
    uint16_t machine;
    std::memcpy(&machine, static_cast<const char*>(image) + 18, sizeof machine);
    fail(machine == elf_machine_cuda ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE);
  }
  const char* text = static_cast<const char*>(image);
  require(looks_like_text(text), CUDA_ERROR_INVALID_IMAGE);
  return parsed(text, log);
}

JitLog::JitLog(unsigned count, const CUjit_option* options, void** values)
    : count_(count), options_(options), values_(values) {
  require(count == 0 || (options != nullptr && values != nullptr));
  for (unsigned i = 0; i < count; ++i) {
    require(options[i] >= 0 && options[i] < CU_JIT_NUM_OPTIONS);
    if (options[i] == CU_JIT_WALL_TIME) {
      float none = 0;
      std::memcpy(&values[i], &none, sizeof none);
    }
  }
}

void JitLog::info(const std::string& text) { put(text, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES); }
void JitLog::error(const std::string& text) { put(text, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES); }

void JitLog::put(const std::string& text, CUjit_option buffer, CUjit_option size) {
  char* to = nullptr;
  void** room = nullptr;
  for (unsigned i = 0; i < count_; ++i) {
    if (options_[i] == buffer) to = static_cast<char*>(values_[i]);
    if (options_[i] == size) room = &values_[i];
  }
  if (room == nullptr) return;
  size_t bytes = static_cast<unsigned>(reinterpret_cast<uintptr_t>(*room));
  size_t written = 0;
  if (to != nullptr && bytes != 0) {
    written = std::min(bytes - 1, text.size());
    std::memcpy(to, text.data(), written);
    to[written] = '\0';
  }
  *room = reinterpret_cast<void*>(static_cast<uintptr_t>(written));
}

ProgramRef read_image(const void* image, unsigned architecture, unsigned count, const CUjit_option* options,
                      void** values) {
  JitLog logs(count, options, values);
  std::string log;
  try {
    ProgramRef program = read_image(image, architecture, log);
    logs.info({});
    logs.error({});
    return program;
  } catch (const Failure&) {
    logs.info({});
    logs.error(log);
    throw;
  }
}

std::string file_contents(const char* path) {
  require(path != nullptr);
  std::ifstream file(path, std::ios::binary);
  require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace sim
