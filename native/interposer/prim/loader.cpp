// What dlopen and dlmopen (loader.S) decide: which file to open.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "../hooks/unknown.h"
#include "errno_kept.h"
#include "next_loader.h"

extern "C" {

// Jumped to by loader.S; set before its jump by the functions below.
__attribute__((visibility("hidden"))) void* torpor_next_dlopen = nullptr;
__attribute__((visibility("hidden"))) void* torpor_next_dlmopen = nullptr;

__attribute__((visibility("hidden"))) const char* torpor_dlopen_file(const char* file);
__attribute__((visibility("hidden"))) const char* torpor_dlmopen_file(Lmid_t space, const char* file);
}

namespace torpor {
namespace {

// We are loaded under this name, in front of the real library; the loader matches it without looking for a file.
constexpr const char* kOurName = "libcuda.so.1";

void find_next(void*& slot, const char* name) {
  if (__atomic_load_n(&slot, __ATOMIC_ACQUIRE) == nullptr) {
    __atomic_store_n(&slot, ::dlsym(RTLD_NEXT, name), __ATOMIC_RELEASE);
  }
}

// libcuda.so, libcuda.so.1, libcuda.so.580.159.04, with any folder in front.
bool names_the_driver(const char* file) {
  if (file == nullptr) return false;
  const char* slash = std::strrchr(file, '/');
  const char* name = slash != nullptr ? slash + 1 : file;
  constexpr char kStem[] = "libcuda.so";
  if (std::strncmp(name, kStem, sizeof kStem - 1) != 0) return false;
  name += sizeof kStem - 1;
  if (*name == '\0') return true;
  return *name == '.' && name[1] != '\0' && std::strspn(name, ".0123456789") == std::strlen(name);
}

// A path to nothing must stay a failure: programs try several in turn.
bool exists(const char* file) { return std::strchr(file, '/') == nullptr || ::access(file, F_OK) == 0; }

}  // namespace

void* next_dlopen(const char* file, int mode) {
  find_next(torpor_next_dlopen, "dlopen");
  return reinterpret_cast<void* (*)(const char*, int)>(torpor_next_dlopen)(file, mode);
}

}  // namespace torpor

const char* torpor_dlopen_file(const char* file) {
  const torpor::ErrnoKept kept;
  torpor::find_next(torpor_next_dlopen, "dlopen");
  return torpor::names_the_driver(file) && torpor::exists(file) ? torpor::kOurName : file;
}

// Another namespace gets a driver of its own, out of our sight; it is opened as asked and reported as unknown.
const char* torpor_dlmopen_file(Lmid_t space, const char* file) {
  const torpor::ErrnoKept kept;
  torpor::find_next(torpor_next_dlmopen, "dlmopen");
  if (!torpor::names_the_driver(file) || !torpor::exists(file)) return file;
  if (space == LM_ID_BASE) return torpor::kOurName;
  torpor::count_unknown("dlmopen(libcuda.so.1)");
  return file;
}
