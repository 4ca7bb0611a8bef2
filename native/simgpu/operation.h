// What a stream can be asked to do and a graph can hold, in the words it was asked in: nothing is resolved, so that it
// can be read back and changed. Carrying it out starts with resolving it, under the process lock.
#pragma once

#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "abi.h"
#include "launch.h"
#include "stream.h"

namespace sim {

class Context;
struct Device;
struct Event;
class Graph;
struct GraphMemory;

struct CopyOp {
  CUDA_MEMCPY3D what;
  CUcontext context;
};

struct FillOp {
  CUDA_MEMSET_NODE_PARAMS what;
  CUcontext context;
};

struct HostOp {
  CUhostFn function;
  void* data;
};

struct ChildOp {
  std::shared_ptr<Graph> graph;
};

struct EmptyOp {};

struct WaitOp {
  std::shared_ptr<Event> event;
};

struct RecordOp {
  std::shared_ptr<Event> event;
};

struct AllocOp {
  CUDA_MEM_ALLOC_NODE_PARAMS what;      // its list of accesses is the one below
  std::vector<CUmemAccessDesc> access;
  std::shared_ptr<GraphMemory> memory;
};

struct FreeOp {
  CUdeviceptr address;
};

// What a stream carries out between a capture's nodes of other kinds: waits on memory and writes to it.
struct MemoryOp {
  std::vector<CUstreamBatchMemOpParams> steps;
  CUcontext context;
};

using Operation = std::variant<KernelOp, CopyOp, FillOp, HostOp, ChildOp, EmptyOp, WaitOp, RecordOp, AllocOp, FreeOp,
                               MemoryOp>;

std::function<void(Stream&)> resolved(const MemoryOp& op);

CUgraphNodeType type_of(const Operation& operation);

// Resolves an operation (no child) and puts it into the stream, after what the legacy default stream's rules and
// `after` ask for. Under the process lock. Throws what the call that asks for it directly would return.
Ticket carry_out(const Operation& operation, const std::shared_ptr<Stream>& stream, std::vector<Ticket> after);

}  // namespace sim
