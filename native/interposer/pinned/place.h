// Where pinned host memory lies that the keeper saves: files without a name on a tmpfs that the job has to itself.
//
// The supervisor mounts it and names it in TORPOR_PINNED. Thread safe; needs no driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "../arena/descriptor.h"

namespace torpor::pinned {

// Whether this process has such a place. A child of a fork has, if its parent had.
bool place_usable();

// The device of its files as maps have it; another one after a restore.
using DeviceName = std::array<char, 24>;
bool place_device(DeviceName& out);

// Whether a piece of that size should have a file, with so many `others` there.
bool is_worth_a_file(std::uint64_t size, std::size_t others);

// Addresses for `size` bytes, which nothing else can take meanwhile, that far behind the beginning of a huge page.
// nullptr without room.
void* reserve(std::uint64_t size, std::uint64_t within_huge_page);

// A new file of that length, of which nothing takes memory yet; none when there can be none.
Descriptor new_file(std::uint64_t length);

// A new file of `size` bytes, filled with zeros and mapped shared, at an address that huge pages begin at. nullptr when
// there is no room. The driver takes memory of the same kind, accounted alike and inherited alike by forked children.
void* map_file(std::uint64_t size);
// The file goes with its last mapping.
void unmap_file(void* base, std::uint64_t size);

}  // namespace torpor::pinned
