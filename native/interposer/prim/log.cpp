#include "log.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>

#include "errno_kept.h"
#include "no_size_signal.h"

namespace torpor::log {

void error(const char* format, ...) {
  const ErrnoKept kept;
  constexpr char kPrefix[] = "torpor: ";
  char line[1024];
  int length = std::snprintf(line, sizeof line, "%s", kPrefix);
  const std::size_t room = sizeof line - 1 - static_cast<std::size_t>(length);
  va_list arguments;
  va_start(arguments, format);
  const int written = std::vsnprintf(line + length, room, format, arguments);
  va_end(arguments);
  if (written > 0) length += written < static_cast<int>(room) ? written : static_cast<int>(room) - 1;
  line[length++] = '\n';
  // A message that cannot be written is lost; the program must not notice.
  const NoSizeSignal quiet;
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line, static_cast<std::size_t>(length));
}

}  // namespace torpor::log
