// Device memory behind one handle of the driver, wherever it is mapped: what the handover moves out and back.
//
// Functions here call the real driver, need no current context, and are for the control thread while nothing runs.
#pragma once

#include <cstdint>
#include <functional>

#include "../../abi/cuda_driver.h"
#include "descriptor.h"
#include "kept_descriptor.h"

namespace torpor::arena {

class DeviceMemory;

struct Backing {
  std::uint64_t size = 0;
  int device = 0;
  CUmemGenericAllocationHandle handle = 0;
  bool imported = false;  // came by descriptor: the driver will not export it again
  bool exported = false;  // a descriptor left since the gate closed
  bool away = false;      // unmapped and released
  bool shared = false;    // its descriptor was given to the program or came from another process
  KeptDescriptor kept;

  // Whether a descriptor that leaves now leads to the very file that others have: a copy, or a second export, would
  // end the sharing.
  bool shareable() const { return !shared || kept.intact(); }
};

// A descriptor of the memory. CUDA_ERROR_NOT_SUPPORTED when only a copy could be exported: see replace_by_copy().
CUresult export_backing(Backing& backing, Descriptor& out);

// Puts fresh memory with the same bytes behind the same mappings. Needs the size in free device memory for as long as
// this runs. `remap` unmaps every mapping and maps it from the handle it is given; it changes nothing when it fails.
// On failure the memory is as it was.
CUresult replace_by_copy(Backing& backing, DeviceMemory& memory,
                         const std::function<CUresult(CUmemGenericAllocationHandle)>& remap);

// Imports memory that is away, through `map_all`, which maps it wherever it belongs or leaves nothing mapped; keeps a
// descriptor if it can.
CUresult import_backing(Backing& backing, const Descriptor& descriptor,
                        const std::function<CUresult(CUmemGenericAllocationHandle)>& map_all);

// Gives up the handle of memory that is mapped nowhere any more, and the descriptor: none may be open in a checkpoint.
void release_backing(Backing& backing);

}  // namespace torpor::arena
