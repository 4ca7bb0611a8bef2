// Looking at other processes through /proc.
#pragma once

#include <cstdint>
#include <set>

#include "descriptor.h"

namespace sim {

// The name under which every block of device memory is made, as /proc shows it behind "/memfd:".
constexpr const char* block_memfd_name = "torpor-simgpu-block";

// Inodes of the device memory to which some process, as far as /proc shows them, has a descriptor.
std::set<uint64_t> descriptors_held();

// A descriptor of our own, readable and writable, of the memfd with this name and inode that some process has open;
// `owner` is asked first. Empty when there is none, or none that may be opened.
Descriptor open_memfd(const char* name, uint64_t inode, int owner);

}  // namespace sim
