#include "ld_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace torpor {
namespace {

// The format since glibc 2.2, little-endian: header, entries, strings. Offsets count from the header. Older systems put
// an older table in front, so the header is searched for.
constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr std::int32_t kElf64X86 = 0x0303;

struct Header {
  char magic[20];
  std::uint32_t entries;
  std::uint32_t strings_length;
  std::uint32_t unused[5];
};
struct Entry {
  std::int32_t flags;
  std::uint32_t key;
  std::uint32_t value;
  std::uint32_t os_version;
  std::uint64_t hardware;
};

std::string contents(const char* path) {
  std::string bytes;
  const int descriptor = ::open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return bytes;
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && status.st_size > 0) {
    bytes.resize(static_cast<std::size_t>(status.st_size));
    std::size_t have = 0;
    ssize_t got = 0;
    while (have < bytes.size() && (got = ::read(descriptor, bytes.data() + have, bytes.size() - have)) > 0) {
      have += static_cast<std::size_t>(got);
    }
    bytes.resize(have);
  }
  ::close(descriptor);
  return bytes;
}

std::string_view text_at(std::string_view table, std::uint32_t offset) {
  if (offset >= table.size()) return {};
  const std::size_t end = table.find('\0', offset);
  return end == std::string_view::npos ? std::string_view{} : table.substr(offset, end - offset);
}

}  // namespace

std::vector<std::string> cached_libraries(std::string_view name, const char* cache) {
  std::vector<std::string> found;
  const std::string bytes = contents(cache);
  const std::size_t start = bytes.find(kMagic);
  if (start == std::string::npos || bytes.size() - start < sizeof(Header)) return found;
  const std::string_view table = std::string_view(bytes).substr(start);
  Header header;
  std::memcpy(&header, table.data(), sizeof header);
  for (std::uint32_t i = 0; i < header.entries; ++i) {
    const std::size_t offset = sizeof(Header) + std::size_t{i} * sizeof(Entry);
    if (offset + sizeof(Entry) > table.size()) break;
    Entry entry;
    std::memcpy(&entry, table.data() + offset, sizeof entry);
    if (entry.flags == kElf64X86 && text_at(table, entry.key) == name) found.emplace_back(text_at(table, entry.value));
  }
  return found;
}

}  // namespace torpor
