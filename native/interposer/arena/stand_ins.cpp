#include "stand_ins.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <cstdlib>
#include <memory>

#include "kept_descriptor.h"

namespace torpor::arena {
namespace {

bool same_open_file(int one, int other) {
  const pid_t self = ::getpid();
  return ::syscall(SYS_kcmp, self, self, KCMP_FILE, one, other) == 0;
}

std::vector<int> open_numbers() {
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  std::vector<int> out;
  const std::unique_ptr<DIR, Close> folder(::opendir("/proc/self/fd"));
  if (!folder) return out;
  while (const dirent* const entry = ::readdir(folder.get())) {
    char* end = nullptr;
    const long number = std::strtol(entry->d_name, &end, 10);
    if (end != entry->d_name && *end == '\0' && number != ::dirfd(folder.get())) out.push_back(static_cast<int>(number));
  }
  return out;
}

bool leads_to_null(int number) {
  struct stat found {};
  return ::fstat(number, &found) == 0 && S_ISCHR(found.st_mode) && found.st_rdev == makedev(1, 3);
}

}  // namespace

std::vector<StandIn> put_stand_ins(const std::vector<SharedFile>& files) {
  std::vector<StandIn> out;
  if (files.empty()) return out;
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return out;
  for (const int number : open_numbers()) {
    if (!is_marked(number) || is_kept(number)) continue;
    for (const SharedFile& file : files) {
      if (number == file.descriptor->get() || !same_open_file(number, file.descriptor->get())) continue;
      const bool close_on_exec = (::fcntl(number, F_GETFD) & FD_CLOEXEC) != 0;
      if (::dup3(null.get(), number, close_on_exec ? O_CLOEXEC : 0) >= 0) out.push_back({number, close_on_exec, file.address});
      break;
    }
  }
  return out;
}

void replace_stand_ins(std::vector<StandIn>& stand_ins, std::uint64_t address, const Descriptor& descriptor) {
  std::erase_if(stand_ins, [&](const StandIn& each) {
    if (each.address != address) return false;
    if (leads_to_null(each.number)) ::dup3(descriptor.get(), each.number, each.close_on_exec ? O_CLOEXEC : 0);
    return true;
  });
}

}  // namespace torpor::arena
