#include "proc_scan.h"

#include <cctype>
#include <cstring>
#include <dirent.h>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace sim {

namespace {

struct CloseDirectory {
  void operator()(DIR* dir) const { closedir(dir); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

void collect(const std::string& fd_folder, std::set<uint64_t>& inodes) {
  const std::string wanted = std::string("/memfd:") + block_memfd_name;
  Directory fds(opendir(fd_folder.c_str()));
  if (!fds) return;
  while (dirent* entry = readdir(fds.get())) {
    char target[64];
    ssize_t length = readlinkat(dirfd(fds.get()), entry->d_name, target, sizeof target);
    bool long_enough = length >= static_cast<ssize_t>(wanted.size());
    if (!long_enough || wanted.compare(0, wanted.size(), target, wanted.size()) != 0) continue;
    struct stat found{};
    if (fstatat(dirfd(fds.get()), entry->d_name, &found, 0) == 0) inodes.insert(found.st_ino);
  }
}

}  // namespace

std::set<uint64_t> descriptors_held() {
  std::set<uint64_t> inodes;
  Directory processes(opendir("/proc"));
  if (!processes) return inodes;
  while (dirent* entry = readdir(processes.get()))
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])))
      collect(std::string("/proc/") + entry->d_name + "/fd", inodes);
  return inodes;
}

}  // namespace sim
