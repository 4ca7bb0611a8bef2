// What a process's GPU work took, by what it was and by device.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "coverage.h"
#include "records.h"

namespace torpor::cupti {

// One kernel, one direction of copies, or all fills. Times in nanoseconds.
struct Work {
  std::string name;  // for people: a kernel's as it was in its source
  const char* kind = "";
  std::uint64_t calls = 0, nanoseconds = 0, longest = 0, bytes = 0;
};

// Not for several threads at once. Everything throws std::bad_alloc only.
class Figures {
 public:
  // Counts the record; others than kernels, copies and fills are passed over.
  void add(const Record& record);

  template <typename Function>
  void each_device(Function&& function) {
    for (auto& [device, coverage] : devices_) function(device, coverage.total());
  }
  template <typename Function>
  void each_work(Function&& function) const {
    for (const auto& [key, work] : kernels_) function(work);
    for (const auto& [key, work] : others_) function(work);
  }
  // Records that had no times: what was still running at the end.
  std::uint64_t untimed() const { return untimed_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  Work& kernel(const char* mangled);
  Work& other(const char* kind, const char* name);
  void count(Work& work, std::uint32_t device, std::uint64_t start, std::uint64_t end, std::uint64_t bytes);

  std::map<std::uint32_t, Coverage> devices_;
  std::unordered_map<std::string, Work, Hash, std::equal_to<>> kernels_;  // by the mangled name
  std::map<std::string, Work, std::less<>> others_;
  std::size_t letters_ = 0;
  std::uint64_t untimed_ = 0;
};

}  // namespace torpor::cupti
