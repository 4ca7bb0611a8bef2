// How the program's own memory comes to be, and how it crosses the border of the process.
#pragma once

#include <optional>

#include "program_memory.h"

namespace torpor::arena {

// Memory that the handover can move, or nothing where the driver itself must answer.
std::optional<CUresult> create_memory(std::uint64_t size, const CUmemAllocationProp& wanted,
                                      CUmemGenericAllocationHandle& out);

// A descriptor of memory that the program made; every one leads to the same open file, by which sharers are known.
CUresult export_memory(const ProgramMemory::Shared& memory, int& out);

// Memory behind a descriptor that a process of this job gave away, or nothing for anybody else's.
std::optional<CUresult> import_memory(int fd, CUmemGenericAllocationHandle& out);

}  // namespace torpor::arena
