#include "device_files.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstdlib>
#include <sstream>

#include "failure.h"

namespace sim {

namespace {

constexpr size_t page_size = 4096;

std::vector<std::string> names() {
  std::vector<std::string> found;
  const char* text = std::getenv("TORPOR_SIM_DEVICE_FILES");
  std::istringstream list(text == nullptr ? "" : text);
  for (std::string name; std::getline(list, name, ':');)
    if (!name.empty()) found.push_back(name);
  return found;
}

}  // namespace

void DeviceFiles::open() {
  try {
    for (const std::string& name : names()) {
      Descriptor descriptor(::open(name.c_str(), O_RDWR | O_CLOEXEC));
      require(static_cast<bool>(descriptor), CUDA_ERROR_OPERATING_SYSTEM);
      File file{moved_high(std::move(descriptor)), nullptr};
      void* page = ::mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor.get(), 0);
      if (page != MAP_FAILED) file.page = page;
      files_.push_back(std::move(file));
    }
  } catch (...) {
    close();
    throw;
  }
}

void DeviceFiles::close() {
  for (File& file : files_)
    if (file.page != nullptr) ::munmap(file.page, page_size);
  files_.clear();
}

}  // namespace sim
