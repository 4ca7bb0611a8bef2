// Memory whose users wait: whoever touches a page of it that is not mapped sleeps in the kernel until it is let go.
#pragma once

#include "../arena/descriptor.h"
#include "span.h"

namespace torpor::pinned {

// A userfaultfd that nobody reads. System calls that touch the memory wait as well, so it takes the right to that.
// Thread safe.
class Waiting {
 public:
  enum class Of { anonymous, file };
  explicit Waiting(Of kind);
  // False without the right (CAP_SYS_PTRACE, vm.unprivileged_userfaultfd, /dev/userfaultfd), or on a kernel that cannot
  // (before 5.7, for files 5.14).
  explicit operator bool() const { return static_cast<bool>(file_); }

  // From now on whoever finds a page of `span` not mapped waits. A mapping that takes the place of this one is without
  // that.
  bool begin(const Span& span) const;
  // Ends that, where the mapping is still the same.
  void end(const Span& span) const;
  // Copies bytes from elsewhere into `span`, of private memory, where no page is mapped. Nobody is woken.
  bool fill(const Span& span, const void* from) const;
  // Lets those go that wait: they look again at what is mapped there.
  void wake(const Span& span) const;

 private:
  Descriptor file_;
  bool of_file_;
};

}  // namespace torpor::pinned
