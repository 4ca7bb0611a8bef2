// Owners of what the kernel gives us: file descriptors and mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace sim {

// A file descriptor, closed with its owner. Descriptors of ours live at 300 and above, where programs that
// assume small numbers do not meet them.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

// Moves `fd` to a high number, close-on-exec; keeps the low number where the process' limit allows no high one.
Descriptor moved_high(Descriptor fd);

// Gives a file this length. False also where the program may not write files of it (RLIMIT_FSIZE): it would be killed, and
// to the program nothing of ours is a file.
bool lengthen(int fd, uint64_t size);

// A memfd of `size` bytes of zeroes. Raises the soft descriptor limit when it is in the way; throws
// CUDA_ERROR_OUT_OF_MEMORY when the kernel gives none.
Descriptor make_memfd(const char* name, uint64_t size);

// Duplicates `fd` at an ordinary low number, for the program to own. Throws CUDA_ERROR_OPERATING_SYSTEM.
int duplicate_for_program(int fd);

}  // namespace sim
