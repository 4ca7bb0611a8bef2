#include "names.h"

#include <bit>
#include <cstring>

namespace torpor {
namespace {

static_assert(std::endian::native == std::endian::little);

// Where a name's search in kNamePlaces begins; gen/names.py works out the same.
std::uint64_t place_of(const char* name, std::size_t length) {
  std::uint64_t first = 0, middle = 0, last = 0;
  if (length >= sizeof first) [[likely]] {
    std::memcpy(&first, name, sizeof first);
    std::memcpy(&middle, name + (length - sizeof middle) / 2, sizeof middle);
    std::memcpy(&last, name + length - sizeof last, sizeof last);
  } else {
    std::memcpy(&first, name, length);
    middle = last = first;
  }
  const std::uint64_t value = (length * 0x9e3779b97f4a7c15U) ^ (first * 0x9e3779b97f4a7c15U) ^ (middle * 0xc2b2ae3d27d4eb4fU) ^
                              (last * 0x165667b19e3779f9U);
  return value >> (64 - kNamePlaceBits);
}

}  // namespace

const Answer* answers_for(const char* name) {
  const std::size_t length = std::strlen(name);
  for (std::uint64_t at = place_of(name, length); kNamePlaces[at] != 0; at = (at + 1) % (1U << kNamePlaceBits)) {
    const Answer* const row = &kAnswers[kNamePlaces[at] - 1];
    if (std::strcmp(row->base, name) == 0) return row;
  }
  return nullptr;
}

}  // namespace torpor
