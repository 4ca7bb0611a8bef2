#include "library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>

namespace torpor::cupti {
namespace {

constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12"};

const char* variable(const char* name) {
  const char* const value = ::secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

void* opened(std::string& why) {
  if (const char* const named = variable("TORPOR_CUPTI")) {
    if (void* const found = ::dlopen(named, RTLD_NOW | RTLD_LOCAL)) return found;
    const char* const error = ::dlerror();
    why = std::string("TORPOR_CUPTI: ") + (error != nullptr ? error : named);
    return nullptr;
  }
  // Two of them in a process would be in each other's way.
  for (const int mode : {RTLD_NOLOAD, 0}) {
    for (const char* const name : kNames) {
      if (void* const found = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | mode)) return found;
    }
  }
  for (const char* const toolkit : {variable("CUDA_HOME"), variable("CUDA_PATH"), "/usr/local/cuda"}) {
    if (toolkit == nullptr) continue;
    for (const char* const name : {kNames[0], kNames[1], "libcupti.so"}) {
      const std::string path = std::string(toolkit) + "/extras/CUPTI/lib64/" + name;
      if (void* const found = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
    }
  }
  why = "libcupti.so.13 and libcupti.so.12 are not found (TORPOR_CUPTI names the file)";
  return nullptr;
}

template <typename Function>
bool bind(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

std::string path_of(void* library) {
  const link_map* map = nullptr;
  return ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0' ? map->l_name : "libcupti.so";
}

}  // namespace

std::string Library::failure(const char* call, Status status) const {
  const char* text = nullptr;
  if (text_of(status, &text) != kDone || text == nullptr) text = "";
  return std::string(call) + ": " + (*text != '\0' ? text : "error " + std::to_string(status));
}

Library find(std::string& why) {
  void* const library = opened(why);
  if (library == nullptr) return {};
  Library found;
  const bool whole = bind(library, "cuptiActivityRegisterCallbacks", found.register_callbacks) &&
                     bind(library, "cuptiActivityEnable", found.enable) &&
                     bind(library, "cuptiActivityGetNextRecord", found.next_record) &&
                     bind(library, "cuptiActivityFlushAll", found.flush_all) &&
                     bind(library, "cuptiActivityGetNumDroppedRecords", found.dropped) &&
                     bind(library, "cuptiGetResultString", found.text_of);
  if (whole) found.path = path_of(library);
  else why = path_of(library) + " lacks functions of the activity interface";
  return found;
}

}  // namespace torpor::cupti
