// Addresses from `start` up to, not including, `end`; both at pages.
#pragma once

#include <cstdint>

namespace torpor::pinned {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2ULL << 20;

struct Span {
  std::uint64_t start = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - start; }
  bool overlaps(std::uint64_t from, std::uint64_t to) const { return start < to && from < end; }
  void* at() const { return reinterpret_cast<void*>(start); }
};

inline std::uint64_t page_after(std::uint64_t address) { return (address + kPage - 1) / kPage * kPage; }
inline std::uint64_t page_before(std::uint64_t address) { return address / kPage * kPage; }

}  // namespace torpor::pinned
