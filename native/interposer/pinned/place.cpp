#include "place.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "../arena/descriptor.h"
#include "../prim/no_size_signal.h"

namespace torpor::pinned {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2ULL << 20;

std::uint64_t rounded(std::uint64_t size) { return (size + kPage - 1) / kPage * kPage; }

const char* place() {
  static const char* const path = std::getenv("TORPOR_PINNED");
  return path;
}

// A file system of its own: a plain folder would be part of something that others need, and may be no memory at all.
bool is_own_tmpfs(const char* path) {
  struct statfs system {};
  struct stat here {}, above {};
  return ::statfs(path, &system) == 0 && system.f_type == TMPFS_MAGIC && ::stat(path, &here) == 0 &&
         ::stat((std::string(path) + "/..").c_str(), &above) == 0 && here.st_dev != above.st_dev;
}

// Addresses for `size` bytes, which nothing else can take meanwhile.
void* reserve(std::uint64_t size) {
  const std::uint64_t room = size + kHugePage;
  void* const base = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<std::uint64_t>(base);
  const std::uint64_t at = (start + kHugePage - 1) / kHugePage * kHugePage;
  if (at != start) ::munmap(base, at - start);
  ::munmap(reinterpret_cast<void*>(at + size), start + room - at - size);
  return reinterpret_cast<void*>(at);
}

}  // namespace

bool place_usable() {
  static const bool usable = place() != nullptr && *place() == '/' && is_own_tmpfs(place());
  return usable;
}

void* map_file(std::uint64_t size) {
  const std::uint64_t length = rounded(size);
  if (length < size) return nullptr;
  const NoSizeSignal quiet;  // a limit on files is not said of memory: the driver has none
  const Descriptor file(::open(place(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  // The length first: the file system chooses huge pages by it. All of the memory now, as whoever touches a page that
  // the file system has no room for is killed.
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(length)) != 0) return nullptr;
  if (::fallocate(file.get(), 0, 0, static_cast<off_t>(length)) != 0) return nullptr;
  void* const base = reserve(length);
  if (base == nullptr) return nullptr;
  if (::mmap(base, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0) == MAP_FAILED) {
    ::munmap(base, length);
    return nullptr;
  }
  return base;
}

void unmap_file(void* base, std::uint64_t size) { ::munmap(base, rounded(size)); }

}  // namespace torpor::pinned
