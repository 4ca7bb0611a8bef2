#include "real_library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ld_cache.h"
#include "log.h"
#include "next_loader.h"

// Tells one copy of the interposer from another driver library. The only data symbol that we export.
extern "C" __attribute__((visibility("default"), used)) const int torpor_interposer_version = 1;

namespace torpor {
namespace {

constexpr const char* kName = "libcuda.so.1";

// Where drivers are put by distributions, container runtimes, WSL and NixOS; searched after the loader's own places.
constexpr const char* kFolders[] = {
    "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64",         "/lib64",
    "/usr/local/nvidia/lib64",   "/usr/local/nvidia/lib", "/usr/lib/wsl/lib",   "/run/opengl-driver/lib",
    "/usr/lib",                  "/lib",
};

char opened_path[1024];
constinit std::atomic<bool> complained{false};

bool same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool is_ourselves(const struct stat& candidate) {
  Dl_info info{};
  struct stat own {};
  return ::dladdr(&torpor_interposer_version, &info) != 0 && info.dli_fname != nullptr &&
         ::stat(info.dli_fname, &own) == 0 && same_file(own, candidate);
}

// Null when the file is missing, unusable, or the interposer; `why` is then set if the loader gave a reason.
void* open_candidate(const std::string& path, std::string& why) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return nullptr;
  if (is_ourselves(status)) {
    why = path + " is the interposer itself";
    return nullptr;
  }
  void* handle = next_dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* message = ::dlerror();
    why = message != nullptr ? message : path;
    return nullptr;
  }
  if (const void* marker = ::dlsym(handle, "torpor_interposer_version"); marker != nullptr) {
    ::dlclose(handle);
    why = path + " is another copy of the interposer";
    return nullptr;
  }
  std::strncpy(opened_path, path.c_str(), sizeof opened_path - 1);
  return handle;
}

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  if (const char* list = ::secure_getenv("LD_LIBRARY_PATH"); list != nullptr) {
    // The loader splits at colons and semicolons alike; an empty entry is the working folder.
    std::string folder;
    for (const char* at = list;; ++at) {
      if (*at != ':' && *at != ';' && *at != '\0') {
        folder += *at;
        continue;
      }
      paths.push_back((folder.empty() ? std::string(".") : folder) + "/" + kName);
      folder.clear();
      if (*at == '\0') break;
    }
  }
  for (std::string& path : cached_libraries(kName)) paths.push_back(std::move(path));
  for (const char* folder : kFolders) paths.push_back(std::string(folder) + "/" + kName);
  return paths;
}

}  // namespace

void* open_real_library() {
  std::string why;
  if (const char* named = ::secure_getenv("TORPOR_REAL_LIBCUDA"); named != nullptr && *named != '\0') {
    void* handle = open_candidate(named, why);
    if (handle == nullptr && !complained.exchange(true)) {
      log::error("cannot use TORPOR_REAL_LIBCUDA=%s: %s", named, why.empty() ? "no such file" : why.c_str());
    }
    return handle;
  }
  for (const std::string& path : candidates()) {
    if (void* handle = open_candidate(path, why); handle != nullptr) return handle;
  }
  if (!complained.exchange(true)) {
    log::error("no NVIDIA driver here: %s is not on LD_LIBRARY_PATH, in the loader's cache or in the usual folders%s%s",
               kName, why.empty() ? "" : "; last tried: ", why.c_str());
  }
  return nullptr;
}

const char* real_library_path() { return opened_path; }

}  // namespace torpor
