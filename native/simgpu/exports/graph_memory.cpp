// The memory of allocation nodes, device by device.
#include "entry.h"

using namespace sim;

namespace {

uint64_t used_by_graphs(const Device& device) {
  uint64_t bytes = 0;
  for (const auto& allocation : process().memory.all())
    if (allocation->device == &device && !allocation->graph_memory.expired()) bytes += allocation->charged;
  return bytes;
}

}  // namespace

// Allocation nodes hold their memory as long as they exist: what is used is what is reserved, and never more than now.
SIM_API(cuDeviceGetGraphMemAttribute, query, (CUdevice ordinal, CUgraphMem_attribute attribute, void* out),
        (ordinal, attribute, out)) {
  require(out != nullptr && attribute >= CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT &&
          attribute <= CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);
  *static_cast<cuuint64_t*>(out) = used_by_graphs(process().device(ordinal));
}

SIM_API(cuDeviceSetGraphMemAttribute, change, (CUdevice ordinal, CUgraphMem_attribute attribute, void* value),
        (ordinal, attribute, value)) {
  process().device(ordinal);
  require(attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);
  require(value != nullptr && *static_cast<const cuuint64_t*>(value) == 0);
}

// There is nothing that could be given back before its node goes.
SIM_API(cuDeviceGraphMemTrim, change, (CUdevice ordinal), (ordinal)) { process().device(ordinal); }
