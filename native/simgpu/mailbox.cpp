#include "mailbox.h"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "failure.h"

namespace sim {

namespace {

constexpr char mailbox_magic[16] = "torpor-mail-001";

// The process id by which `pid` knows itself: the last on the NSpid line. 0 when there is no such process.
int inner_pid(int pid) {
  std::unique_ptr<FILE, int (*)(FILE*)> status(std::fopen(("/proc/" + std::to_string(pid) + "/status").c_str(), "re"),
                                               std::fclose);
  if (!status) return 0;
  char line[256];
  while (std::fgets(line, sizeof line, status.get()) != nullptr) {
    if (std::strncmp(line, "NSpid:", 6) != 0) continue;
    const char* last = line + std::strlen(line);
    while (last > line && std::isspace(static_cast<unsigned char>(last[-1]))) --last;
    while (last > line && std::isdigit(static_cast<unsigned char>(last[-1]))) --last;
    return std::atoi(last);
  }
  return 0;
}

bool is_mailbox_of(int fd, int owner) {
  struct stat found{};
  char magic[sizeof mailbox_magic];
  int32_t recorded = 0;
  return fstat(fd, &found) == 0 && found.st_size == sizeof(Mailbox) &&
         pread(fd, magic, sizeof magic, offsetof(Mailbox, magic)) == sizeof magic &&
         std::memcmp(magic, mailbox_magic, sizeof magic) == 0 &&
         pread(fd, &recorded, sizeof recorded, offsetof(Mailbox, owner)) == sizeof recorded && recorded == owner;
}

}  // namespace

MappedMailbox::MappedMailbox(Descriptor fd) : fd_(std::move(fd)) {
  void* at = mmap(nullptr, sizeof(Mailbox), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  require(at != MAP_FAILED, CUDA_ERROR_OPERATING_SYSTEM);
  mailbox_ = static_cast<Mailbox*>(at);
}

MappedMailbox::MappedMailbox(MappedMailbox&& other) noexcept
    : fd_(std::move(other.fd_)), mailbox_(std::exchange(other.mailbox_, nullptr)) {}

MappedMailbox::~MappedMailbox() {
  if (mailbox_ != nullptr) munmap(mailbox_, sizeof(Mailbox));
}

MappedMailbox MappedMailbox::make() {
  MappedMailbox made(make_memfd(mailbox_memfd_name, sizeof(Mailbox)));
  madvise(made.mailbox_, sizeof(Mailbox), MADV_DONTFORK);
  made->owner = getpid();
  std::memcpy(made->magic, mailbox_magic, sizeof mailbox_magic);
  return made;
}

MappedMailbox MappedMailbox::find(int pid) {
  int owner = pid > 0 ? inner_pid(pid) : 0;
  require(owner > 0);
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  std::unique_ptr<DIR, int (*)(DIR*)> fds(opendir(folder.c_str()), closedir);
  if (!fds) fail(errno == EACCES || errno == EPERM ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_INVALID_VALUE);
  const std::string wanted = std::string("/memfd:") + mailbox_memfd_name;
  while (dirent* entry = readdir(fds.get())) {
    char target[64];
    ssize_t length = readlinkat(dirfd(fds.get()), entry->d_name, target, sizeof target);
    if (length < static_cast<ssize_t>(wanted.size()) || wanted.compare(0, wanted.size(), target, wanted.size()) != 0)
      continue;
    Descriptor fd(openat(dirfd(fds.get()), entry->d_name, O_RDWR | O_CLOEXEC));
    if (fd && is_mailbox_of(fd.get(), owner)) return MappedMailbox(std::move(fd));
  }
  fail(CUDA_ERROR_NOT_INITIALIZED);
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, int milliseconds) {
  timespec limit{milliseconds / 1000, (milliseconds % 1000) * 1000000L};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, milliseconds < 0 ? nullptr : &limit, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0); }

}  // namespace sim
