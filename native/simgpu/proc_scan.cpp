#include "proc_scan.h"

#include <cctype>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
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

Descriptor find_memfd(const std::string& fd_folder, const std::string& wanted, uint64_t inode) {
  Directory fds(opendir(fd_folder.c_str()));
  if (!fds) return {};
  while (dirent* entry = readdir(fds.get())) {
    char target[64];
    ssize_t length = readlinkat(dirfd(fds.get()), entry->d_name, target, sizeof target);
    bool long_enough = length >= static_cast<ssize_t>(wanted.size());
    if (!long_enough || wanted.compare(0, wanted.size(), target, wanted.size()) != 0) continue;
    struct stat found{};
    if (fstatat(dirfd(fds.get()), entry->d_name, &found, 0) != 0 || found.st_ino != inode) continue;
    Descriptor fd(openat(dirfd(fds.get()), entry->d_name, O_RDWR | O_CLOEXEC));
    if (fd && fstat(fd.get(), &found) == 0 && found.st_ino == inode) return moved_high(std::move(fd));
  }
  return {};
}

std::string folder_of(const char* process) { return std::string("/proc/") + process + "/fd"; }

}  // namespace

Descriptor open_memfd(const char* name, uint64_t inode, int owner) {
  const std::string wanted = std::string("/memfd:") + name;
  if (Descriptor fd = find_memfd(folder_of(std::to_string(owner).c_str()), wanted, inode)) return fd;
  Directory processes(opendir("/proc"));
  while (dirent* entry = processes ? readdir(processes.get()) : nullptr) {
    if (!std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) continue;
    if (Descriptor fd = find_memfd(folder_of(entry->d_name), wanted, inode)) return fd;
  }
  return {};
}

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
