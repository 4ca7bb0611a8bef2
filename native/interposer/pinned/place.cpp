#include "place.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../prim/fork_hold.h"
#include "../prim/no_size_signal.h"
#include "../prim/undisturbed.h"
#include "span.h"

namespace torpor::pinned {
namespace {

// Every piece is a file of its own and an argument of CRIU's, so the more there are the larger they must be.
constexpr std::size_t kSmallest = 4ULL << 20;
constexpr std::size_t kMany = 256;
constexpr std::size_t kSmallestOfMany = 64ULL << 20;
constexpr std::size_t kMost = 4096;

// A copy: programs write over their environment, to have a title where ps looks for it.
const char* place() {
  static const char* const path = [] {
    const char* const set = std::getenv("TORPOR_PINNED");
    return set != nullptr ? ::strdup(set) : nullptr;
  }();
  return path;
}

// A file system of its own: a plain folder would be part of something that others need, and may be no memory at all.
bool is_own_tmpfs(const char* path) {
  struct statfs system {};
  struct stat here {}, above {};
  return ::statfs(path, &system) == 0 && system.f_type == TMPFS_MAGIC && ::stat(path, &here) == 0 &&
         ::stat((std::string(path) + "/..").c_str(), &above) == 0 && here.st_dev != above.st_dev;
}

}  // namespace

bool place_usable() {
  static const bool usable = place() != nullptr && *place() == '/' && is_own_tmpfs(place());
  return usable;
}

bool place_device(DeviceName& out) {
  struct stat here {};
  if (place() == nullptr || ::stat(place(), &here) != 0) return false;
  std::snprintf(out.data(), out.size(), "%02x:%02x", major(here.st_dev), minor(here.st_dev));
  return true;
}

bool is_worth_a_file(std::uint64_t size, std::size_t others) {
  return size >= (others < kMany ? kSmallest : kSmallestOfMany) && others < kMost;
}

void* reserve(std::uint64_t size, std::uint64_t within_huge_page) {
  const std::uint64_t room = size + 2 * kHugePage;
  void* const base = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<std::uint64_t>(base);
  const std::uint64_t at = (start + kHugePage - 1) / kHugePage * kHugePage + within_huge_page;
  if (at != start) ::munmap(base, at - start);
  ::munmap(reinterpret_cast<void*>(at + size), start + room - at - size);
  return reinterpret_cast<void*>(at);
}

Descriptor new_file(std::uint64_t length) {
  const NoSizeSignal quiet;  // a limit on files is not said of memory: the driver has none
  Descriptor file(::open(place(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  // The length first: the file system chooses huge pages by it.
  if (file && ::ftruncate(file.get(), static_cast<off_t>(length)) != 0) file.reset();
  return file;
}

void* map_file(std::uint64_t size) {
  const std::uint64_t length = page_after(size);
  if (length < size) return nullptr;
  const Undisturbed undisturbed;  // a handler that forks would wait for this thread
  const ForkHold hold;            // a child would keep the file, and its memory
  const Descriptor file = new_file(length);
  // All of the memory now, as whoever touches a page that the file system has no room for is killed.
  if (!file || ::fallocate(file.get(), 0, 0, static_cast<off_t>(length)) != 0) return nullptr;
  void* const base = reserve(length, 0);
  if (base == nullptr) return nullptr;
  if (::mmap(base, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0) == MAP_FAILED) {
    ::munmap(base, length);
    return nullptr;
  }
  return base;
}

void unmap_file(void* base, std::uint64_t size) { ::munmap(base, page_after(size)); }

}  // namespace torpor::pinned
