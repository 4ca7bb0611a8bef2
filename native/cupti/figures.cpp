#include "figures.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace torpor::cupti {
namespace {

// A program may make kernels, and names for them, as long as it runs.
constexpr std::size_t kMostKernels = 8192, kMostLetters = std::size_t{2} << 20;
constexpr const char* kOtherKernels = "(other kernels)";

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

const char* direction(const Copy& copy) {
  constexpr const char* kDirections[] = {
      "copy",          "host to device",  "device to host",   "host to array", "array to host",    "array to array",
      "array to device", "device to array", "device to device", "host to host",  "device to device (peer)"};
  return copy.direction < std::size(kDirections) ? kDirections[copy.direction] : kDirections[0];
}

template <typename Kind>
const Kind& as(const Record& record) {
  return reinterpret_cast<const Kind&>(record);
}

}  // namespace

void Figures::add(const Record& record) {
  switch (record.kind) {
    case kKernel:
    case kConcurrentKernel: {
      const auto& run = as<Kernel>(record);
      return count(kernel(run.name != nullptr ? run.name : kOtherKernels), run.device, run.start, run.end, 0);
    }
    case kCopy:
    case kPeerCopy: {
      const auto& copy = as<Copy>(record);
      return count(other("copy", direction(copy)), copy.device, copy.start, copy.end, copy.bytes);
    }
    case kFill: {
      const auto& fill = as<Fill>(record);
      return count(other("fill", "fill"), fill.device, fill.start, fill.end, fill.bytes);
    }
    default:
      return;
  }
}

Work& Figures::kernel(const char* mangled) {
  if (const auto found = kernels_.find(std::string_view(mangled)); found != kernels_.end()) return found->second;
  Work made{demangled(mangled), "kernel"};
  letters_ += made.name.size();
  if (kernels_.size() >= kMostKernels || letters_ > kMostLetters) {
    return kernels_.try_emplace(kOtherKernels, Work{kOtherKernels, "kernel"}).first->second;
  }
  return kernels_.emplace(mangled, std::move(made)).first->second;
}

Work& Figures::other(const char* kind, const char* name) {
  if (const auto found = others_.find(std::string_view(name)); found != others_.end()) return found->second;
  return others_.emplace(name, Work{name, kind}).first->second;
}

void Figures::count(Work& work, std::uint32_t device, std::uint64_t start, std::uint64_t end, std::uint64_t bytes) {
  if (start == 0 || end < start) {
    ++untimed_;
    return;
  }
  ++work.calls;
  work.nanoseconds += end - start;
  work.longest = std::max(work.longest, end - start);
  work.bytes += bytes;
  if (start < end) devices_.try_emplace(device).first->second.add(start, end);
}

}  // namespace torpor::cupti
