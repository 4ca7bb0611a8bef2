// Looking at other processes through /proc.
#pragma once

#include <cstdint>
#include <set>

namespace sim {

// The name under which every block of device memory is made, as /proc shows it behind "/memfd:".
constexpr const char* block_memfd_name = "torpor-simgpu-block";

// Inodes of the device memory to which some process, as far as /proc shows them, has a descriptor.
std::set<uint64_t> descriptors_held();

}  // namespace sim
