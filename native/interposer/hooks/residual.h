// Live driver resources that a checkpoint has to know of, because the driver cannot save them or only in part.
#pragma once

#include <cstdint>

namespace torpor {

namespace residual {

enum class Kind : std::uint8_t {
  managed,           // cuMemAllocManaged
  managed_variable,  // variables declared __managed__
  managed_library,   // libraries that have some
  ipc_exported,      // events and memory whose IPC handle was taken
  ipc_imported,      // memory, events and pools opened from another process
  vmm_imported,      // handles imported by descriptor, and mappings of them
  multicast,         // multicast objects, and mappings of them
  external,          // memory, semaphores and resources of other APIs
  capture,           // streams being captured
  kCount,
};

struct Snapshot {
  std::uint32_t managed;
  std::uint32_t managed_variables;  // or libraries with some
  std::uint32_t ipc_exported;
  std::uint32_t ipc_imported;
  std::uint32_t vmm_imported;
  std::uint32_t multicast;
  std::uint32_t external;
  std::uint32_t capturing;
};

// How many of each are alive. Drops managed memory that was freed meanwhile, for which it asks the driver about each
// pointer; to be called by the control thread.
Snapshot snapshot();

// Notes a resource by handle or address. `size` is that of a mapping, else 0. A second note of the same key is ignored.
// Nothing is allocated; resources beyond the table's room stay counted until the process ends.
void add(Kind kind, std::uint64_t key, std::uint64_t size = 0);

// Forgets the resource; harmless when it was never noted, and cheap when there is none of that kind.
void remove(Kind kind, std::uint64_t key);

// Forgets every mapping of that kind that starts in [address, address + size).
void remove_range(Kind kind, std::uint64_t address, std::uint64_t size);

bool contains(Kind kind, std::uint64_t key);

}  // namespace residual

// How many streams are being captured now. One load.
std::uint32_t active_captures();

// Whether a stream may be part of a capture. Also for good after a stream was destroyed while it was captured.
bool captures_unclear();

}  // namespace torpor
