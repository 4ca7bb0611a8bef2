// Where pinned host memory lies that the keeper saves: files without a name on a tmpfs that the job has to itself.
//
// The supervisor mounts it and names it in TORPOR_PINNED. Thread safe; needs no driver.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torpor::pinned {

// Whether this process has such a place. A child of a fork has, if its parent had.
bool place_usable();

// A new file of `size` bytes, filled with zeros and mapped shared, at an address that huge pages begin at. nullptr when
// there is no room. The driver takes memory of the same kind, accounted alike and inherited alike by forked children.
void* map_file(std::uint64_t size);
// The file goes with its last mapping.
void unmap_file(void* base, std::uint64_t size);

}  // namespace torpor::pinned
