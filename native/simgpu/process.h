// What the driver keeps for the one process it lives in.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "address_map.h"
#include "context.h"
#include "device.h"
#include "device_files.h"
#include "event.h"
#include "graph.h"
#include "ledger.h"
#include "linker.h"
#include "module.h"
#include "pool.h"
#include "registry.h"
#include "virtual_memory.h"

namespace sim {

struct Process {
  // Guards everything below. Never held while waiting for a stream.
  std::mutex mutex;
  std::condition_variable unlocked;
  bool locked = false;  // by cuCheckpointProcessLock: calls that change anything wait

  std::atomic<bool> initialised = false;
  std::atomic<bool> forked = false;  // this is a child of the process that initialised: nothing works here

  Config config;
  std::vector<std::unique_ptr<Device>> devices;
  DeviceFiles device_files;
  AddressMap memory;
  VirtualMemory virtual_memory;
  Ledger ledger;
  Registry<Context, CUcontext> contexts;
  std::unordered_set<CUcontext> ended_contexts;  // destroyed ones, to tell them from what never was a context
  Registry<Stream, CUstream> streams;
  Registry<Event, CUevent> events;
  Registry<Pool, CUmemoryPool> pools;
  Registry<Module, CUmodule> modules;
  Registry<Function, CUfunction> functions;
  Registry<Library, CUlibrary> libraries;
  Registry<Kernel, CUkernel> kernels;
  Registry<Graph, CUgraph> graphs;
  Registry<Node, CUgraphNode> graph_nodes;
  Registry<GraphExec, CUgraphExec> graph_execs;
  Registry<UserObject, CUuserObject> user_objects;
  Registry<Linker, CUlinkState> linkers;
  std::vector<std::shared_ptr<Capture>> captures;  // under way

  // Throws CUDA_ERROR_INVALID_DEVICE.
  Device& device(int ordinal);
};

// Made on first use, never destroyed: threads of ours may outlive the program's static destruction.
Process& process();

// Holds the process lock, entered only while no checkpoint has locked the process. A body that waits in between
// makes one before the wait and another after it.
class Section {
 public:
  Section();

 private:
  std::unique_lock<std::mutex> lock_;
};

// cuInit's work, once per process. Throws CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_VALUE.
void initialise();

}  // namespace sim
