// A library loaded with the program, that does to it what Linux 6.17 may where others map meanwhile: memory that is to move is
// refused its place when what was there is unmapped already.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>

namespace {

constexpr int kEmptied = 4;  // MREMAP_DONTUNMAP
std::atomic<int> left{0};

}  // namespace

extern "C" void refuse(int times) { left = times; }

extern "C" void* mremap(void* from, std::size_t size, std::size_t wanted, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void* const to = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  if (to != nullptr && (flags & kEmptied) == 0 && left.fetch_sub(1) > 0) {
    ::munmap(to, wanted);
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(::syscall(SYS_mremap, from, size, wanted, flags, to));
}
