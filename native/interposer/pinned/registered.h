// Memory that the program allocated itself and registers (cuMemHostRegister): large pieces become files that the keeper
// saves, as what cuMemHostAlloc makes is, for as long as they are registered. The driver registers and unregisters.
//
// Thread safe; callers hold a gate::Scope. A forked child has copies, as natively, and no part in it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../abi/cuda_driver.h"
#include "owned.h"

namespace torpor::pinned::registered {

// The driver's call with what it takes besides.
struct Call {
  CUresult (*driver)(void*, std::size_t, unsigned int);
  void* base;
  std::size_t size;
  unsigned int flags;
};

// Makes the call, before it a file of the memory where that is possible, and answers what the driver does.
CUresult enrol(const Call& call);

// Unregisters, and makes private memory of it again.
CUresult withdraw(void* base);

// How many files there are, with those whose memory was freed without being unregistered. Costs one load.
std::size_t count();

// Files that are mapped, and how much of them. Reads maps.
Totals totals();

// For forks: no memory is exchanged between the first and the last, which the child calls, too.
void hold_for_fork();
std::uint64_t bytes_held();  // in files
bool leave_files();          // in the child; false when it could not
void release_after_fork();

}  // namespace torpor::pinned::registered
