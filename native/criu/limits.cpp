// Preloaded into CRIU: the resource limits of a process of another user, for who lacks CAP_SYS_RESOURCE.
//
// prlimit(2) refuses them to root, too, while /proc/<pid>/limits shows them to anybody. CRIU asks by way of syscall(3)
// and so comes to us: each call goes to the kernel, and where that refuses to tell limits we read them. No libc but errno.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>

namespace {

struct Limit {
  unsigned long soft, hard;
};

// In the order of the kernel's numbers.
constexpr const char* kNames[] = {
    "Max cpu time",      "Max file size",      "Max data size",      "Max stack size",
    "Max core file size", "Max resident set",  "Max processes",      "Max open files",
    "Max locked memory", "Max address space",  "Max file locks",     "Max pending signals",
    "Max msgqueue size", "Max nice priority",  "Max realtime priority", "Max realtime timeout",
};
constexpr unsigned long kUnlimited = ~0UL;

long raw(long number, long a, long b, long c, long d = 0, long e = 0, long f = 0) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

// Past `word` where `text` begins with it, else null.
const char* past(const char* text, const char* word) {
  while (*word != '\0' && *text == *word) ++text, ++word;
  return *word == '\0' ? text : nullptr;
}

// Reads "unlimited" or digits behind spaces, and moves on. False where there is neither.
bool read_value(const char*& at, unsigned long& out) {
  while (*at == ' ') ++at;
  if (const char* const end = past(at, "unlimited")) {
    at = end;
    out = kUnlimited;
    return true;
  }
  if (*at < '0' || *at > '9') return false;
  for (out = 0; *at >= '0' && *at <= '9'; ++at) out = out * 10 + static_cast<unsigned long>(*at - '0');
  return true;
}

bool find(const char* text, const char* name, Limit& out) {
  for (const char* line = text; *line != '\0';) {
    const char* at = past(line, name);
    if (at != nullptr && *at == ' ') return read_value(at, out.soft) && read_value(at, out.hard);
    while (*line != '\0' && *line++ != '\n') {
    }
  }
  return false;
}

// Whole, with a zero behind it; false where that cannot be had.
bool read_file(const char* path, char* text, long room) {
  const long file = raw(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  long length = 0, part;
  while ((part = raw(SYS_read, file, reinterpret_cast<long>(text + length), room - 1 - length)) > 0) length += part;
  raw(SYS_close, file, 0, 0);
  text[length] = '\0';
  return part == 0 && length > 0;
}

bool shown(long pid, unsigned long what, Limit& out) {
  if (pid <= 0 || what >= sizeof kNames / sizeof kNames[0]) return false;
  char digits[24];
  int count = 0;
  for (long rest = pid; rest != 0; rest /= 10) digits[count++] = static_cast<char>('0' + rest % 10);
  char path[64];
  char* end = path;
  for (const char* from = "/proc/"; *from != '\0';) *end++ = *from++;
  while (count > 0) *end++ = digits[--count];
  for (const char* from = "/limits"; *from != '\0';) *end++ = *from++;
  *end = '\0';
  char text[4096];
  return read_file(path, text, sizeof text) && find(text, kNames[what], out);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) long syscall(long number, ...) {
  long given[6];
  va_list arguments;
  va_start(arguments, number);
  for (long& each : given) each = va_arg(arguments, long);
  va_end(arguments);
  const long result = raw(number, given[0], given[1], given[2], given[3], given[4], given[5]);
  if (result >= 0 || result < -4095) return result;
  if (number == SYS_prlimit64 && result == -EPERM && given[2] == 0 && given[3] != 0 &&
      shown(static_cast<int>(given[0]), static_cast<unsigned>(given[1]), *reinterpret_cast<Limit*>(given[3]))) {
    return 0;
  }
  errno = static_cast<int>(-result);
  return -1;
}
