#include "descriptor.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "failure.h"

namespace sim {

namespace {

constexpr int first_high_fd = 300;

// True when the soft limit could be raised to the hard one, so that trying again makes sense.
bool raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Descriptor::reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Descriptor moved_high(Descriptor fd) {
  if (!fd || fd.get() >= first_high_fd) return fd;
  Descriptor high(fcntl(fd.get(), F_DUPFD_CLOEXEC, first_high_fd));
  if (!high && raise_descriptor_limit()) high = Descriptor(fcntl(fd.get(), F_DUPFD_CLOEXEC, first_high_fd));
  return high ? std::move(high) : std::move(fd);
}

bool lengthen(int fd, uint64_t size) {
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) != 0 || size > most.rlim_cur) return false;
  return ftruncate(fd, static_cast<off_t>(size)) == 0;
}

Descriptor make_memfd(const char* name, uint64_t size) {
  Descriptor fd(memfd_create(name, MFD_CLOEXEC));
  if (!fd && errno == EMFILE && raise_descriptor_limit()) fd = Descriptor(memfd_create(name, MFD_CLOEXEC));
  if (!fd || !lengthen(fd.get(), size)) fail(CUDA_ERROR_OUT_OF_MEMORY);
  return moved_high(std::move(fd));
}

int duplicate_for_program(int fd) {
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0 && errno == EMFILE && raise_descriptor_limit()) copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) fail(CUDA_ERROR_OPERATING_SYSTEM);
  return copy;
}

}  // namespace sim
