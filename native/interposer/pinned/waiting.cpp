#include "waiting.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cerrno>

namespace torpor::pinned {
namespace {

// Of newer kernels than the headers may be of.
constexpr std::uint64_t kModeMinor = 1 << 2;
constexpr std::uint64_t kFeatureMinorOfFiles = 1 << 10;
constexpr unsigned long kNew = _IO(UFFDIO, 0x00);

int opened() {
  const long made = ::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
  if (made >= 0 || errno != EPERM) return static_cast<int>(made);
  const Descriptor device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));  // as administrators give the right to some
  return device ? ::ioctl(device.get(), kNew, O_CLOEXEC | O_NONBLOCK) : -1;
}

uffdio_range range(const Span& span) { return {span.start, span.size()}; }

}  // namespace

Waiting::Waiting(Of kind) : file_(opened()), of_file_(kind == Of::file) {
  uffdio_api wanted{};
  wanted.api = UFFD_API;
  wanted.features = of_file_ ? kFeatureMinorOfFiles : 0;
  if (file_ && ::ioctl(file_.get(), UFFDIO_API, &wanted) != 0) file_.reset();
}

bool Waiting::begin(const Span& span) const {
  uffdio_register wanted{};
  wanted.range = range(span);
  wanted.mode = UFFDIO_REGISTER_MODE_MISSING | (of_file_ ? kModeMinor : 0);
  return ::ioctl(file_.get(), UFFDIO_REGISTER, &wanted) == 0;
}

void Waiting::end(const Span& span) const {
  uffdio_range wanted = range(span);
  ::ioctl(file_.get(), UFFDIO_UNREGISTER, &wanted);
  wake(span);
}

bool Waiting::fill(const Span& span, const void* from) const {
  for (std::uint64_t done = 0; done < span.size();) {
    uffdio_copy wanted{};
    wanted.dst = span.start + done;
    wanted.src = reinterpret_cast<std::uint64_t>(from) + done;
    wanted.len = span.size() - done;
    wanted.mode = UFFDIO_COPY_MODE_DONTWAKE;
    const bool all = ::ioctl(file_.get(), UFFDIO_COPY, &wanted) == 0;
    if (!all && errno != EAGAIN) return false;
    if (wanted.copy > 0) done += static_cast<std::uint64_t>(wanted.copy);
  }
  return true;
}

void Waiting::wake(const Span& span) const {
  uffdio_range wanted = range(span);
  ::ioctl(file_.get(), UFFDIO_WAKE, &wanted);
}

}  // namespace torpor::pinned
