// CUDA IPC for events: handles of ours for events of a job's processes, the driver's for those of others.
#include "../arena/guarded.h"
#include "../arena/pools.h"
#include "../gate/gate.h"
#include "../generated/hooks.h"
#include "../generated/real.h"
#include "../hooks/residual_key.h"
#include "../prim/thread.h"
#include "../vm/forget.h"
#include "../vm/look.h"
#include "../vm/settle.h"
#include "events.h"

namespace torpor::share {
namespace {

namespace events = torpor::share::events;

// Waits outside of the gate for another process, as long as it takes: a freeze may come between two questions.
CUresult synchronize(CUevent event) {
  std::optional<events::Latest> latest;
  bool settled = true;
  {
    const gate::Scope inside("cuEventSynchronize");
    latest.emplace(event);
    if (latest->question()) settled = events::settled(event, *latest->question());
  }
  for (long pause = 20; !settled; pause = pause < 1000 ? 2 * pause : pause) {
    thread::sleep_microseconds(pause);
    const gate::Scope inside("cuEventSynchronize");
    settled = events::settled(event, *latest->question());
  }
  const gate::Waiting waiting("cuEventSynchronize");
  return real::cuEventSynchronize(latest->event());
}

CUresult query(CUevent event) {
  const events::Latest latest(event);
  const CUresult result = real::cuEventQuery(latest.event());
  return result == CUDA_SUCCESS && latest.question() && !events::settled(event, *latest.question()) ? CUDA_ERROR_NOT_READY : result;
}

bool names_one(const CUgraphNodeParams* params) {
  if (params == nullptr) return false;
  if (params->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) return events::contains(params->eventRecord.event);
  return params->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && events::contains(params->eventWait.event);
}

// `call()`, unless the event is a shared one.
template <typename Call>
CUresult unless_shared(CUevent event, const char* symbol, Call call) {
  return arena::guarded([&] { return events::contains(event) ? events::refuse(symbol) : call(); });
}

template <typename Call>
CUresult unless_shared(const CUgraphNodeParams* params, const char* symbol, Call call) {
  return arena::guarded([&] { return names_one(params) ? events::refuse(symbol) : call(); });
}

}  // namespace
}  // namespace torpor::share

using torpor::arena::guarded;
using torpor::residual::Kind;
using torpor::residual::noted;
using torpor::share::unless_shared;
using torpor::vm::recordings::unseen;
namespace events = torpor::share::events;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  if ((Flags & CU_EVENT_INTERPROCESS) == 0) [[likely]] return real::cuEventCreate(phEvent, Flags);
  return guarded([&] {
    const auto ours = events::create(phEvent, Flags);
    return ours ? *ours : real::cuEventCreate(phEvent, Flags);
  });
}

extern "C" CUresult torpor_hook_cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event) {
  return guarded([&] {
    if (events::contains(event)) return events::give_handle(pHandle, event);
    const CUresult result = noted(real::cuIpcGetEventHandle(pHandle, event), Kind::ipc_exported, &event);
    if (result == CUDA_SUCCESS) torpor::vm::share_event();
    return result;
  });
}

extern "C" CUresult torpor_hook_cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle) {
  return guarded([&] {
    if (torpor::share::is_ours(handle)) return events::open(phEvent, handle);
    const CUresult result = noted(real::cuIpcOpenEventHandle(phEvent, handle), Kind::ipc_imported, phEvent);
    if (result == CUDA_SUCCESS) torpor::vm::share_event();
    return result;
  });
}

extern "C" CUresult torpor_hook_cuEventQuery(CUevent hEvent) {
  return guarded([&] {
    return torpor::vm::look(hEvent, [&] {
      return events::contains(hEvent) ? torpor::share::query(hEvent) : real::cuEventQuery(hEvent);
    });
  });
}

extern "C" CUresult torpor_hook_cuEventSynchronize(CUevent hEvent) {
  return guarded([&] {
    const CUresult result = torpor::vm::look(hEvent, [&] {
      if (events::contains(hEvent)) return torpor::share::synchronize(hEvent);
      const torpor::gate::Waiting waiting("cuEventSynchronize");
      return real::cuEventSynchronize(hEvent);
    });
    torpor::arena::pools::after_wait();
    return result;
  });
}

extern "C" CUresult torpor_hook_cuEventRecord_ptsz(CUevent hEvent, CUstream hStream) {
  return guarded([&] {
    return events::record(hEvent, hStream, false, events::kPerThread,
                          [&] { return unseen([&] { return real::cuEventRecord_ptsz(hEvent, hStream); }); });
  });
}

extern "C" CUresult torpor_hook_cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags) {
  return guarded([&] {
    return events::record(hEvent, hStream, (flags & CU_EVENT_RECORD_EXTERNAL) != 0, events::kPerThread,
                          [&] { return unseen([&] { return real::cuEventRecordWithFlags_ptsz(hEvent, hStream, flags); }); });
  });
}

extern "C" CUresult torpor_hook_cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  return guarded([&] {
    return events::wait(hStream, hEvent, (Flags & CU_EVENT_WAIT_EXTERNAL) != 0, events::kPerThread,
                        [&](CUevent event) { return real::cuStreamWaitEvent_ptsz(hStream, event, Flags); });
  });
}

extern "C" CUresult torpor_hook_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  return unless_shared(hEvent, "cuCtxRecordEvent", [&] { return unseen([&] { return real::cuCtxRecordEvent(hCtx, hEvent); }); });
}

extern "C" CUresult torpor_hook_cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  return unless_shared(hEvent, "cuCtxWaitEvent", [&] { return real::cuCtxWaitEvent(hCtx, hEvent); });
}

extern "C" CUresult torpor_hook_cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent) {
  return unless_shared(hEvent, "cuGreenCtxRecordEvent",
                       [&] { return unseen([&] { return real::cuGreenCtxRecordEvent(hCtx, hEvent); }); });
}

extern "C" CUresult torpor_hook_cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent) {
  return unless_shared(hEvent, "cuGreenCtxWaitEvent", [&] { return real::cuGreenCtxWaitEvent(hCtx, hEvent); });
}

extern "C" CUresult torpor_hook_cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies, CUevent event) {
  return unless_shared(event, "cuGraphAddEventRecordNode", [&] { return real::cuGraphAddEventRecordNode(phGraphNode, hGraph, dependencies, numDependencies, event); });
}

extern "C" CUresult torpor_hook_cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies, CUevent event) {
  return unless_shared(event, "cuGraphAddEventWaitNode", [&] { return real::cuGraphAddEventWaitNode(phGraphNode, hGraph, dependencies, numDependencies, event); });
}

extern "C" CUresult torpor_hook_cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return unless_shared(event, "cuGraphEventRecordNodeSetEvent", [&] { return real::cuGraphEventRecordNodeSetEvent(hNode, event); });
}

extern "C" CUresult torpor_hook_cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return unless_shared(event, "cuGraphEventWaitNodeSetEvent", [&] { return real::cuGraphEventWaitNodeSetEvent(hNode, event); });
}

extern "C" CUresult torpor_hook_cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  return unless_shared(event, "cuGraphExecEventRecordNodeSetEvent", [&] { return real::cuGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, event); });
}

extern "C" CUresult torpor_hook_cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
  return unless_shared(event, "cuGraphExecEventWaitNodeSetEvent", [&] { return real::cuGraphExecEventWaitNodeSetEvent(hGraphExec, hNode, event); });
}

extern "C" CUresult torpor_hook_cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return unless_shared(nodeParams, "cuGraphAddNode", [&] { return real::cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams); });
}

extern "C" CUresult torpor_hook_cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, const CUgraphEdgeData* dependencyData, size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return unless_shared(nodeParams, "cuGraphAddNode_v2", [&] { return real::cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams); });
}

extern "C" CUresult torpor_hook_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  return unless_shared(nodeParams, "cuGraphNodeSetParams", [&] { return real::cuGraphNodeSetParams(hNode, nodeParams); });
}

extern "C" CUresult torpor_hook_cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  return unless_shared(nodeParams, "cuGraphExecNodeSetParams", [&] { return real::cuGraphExecNodeSetParams(hGraphExec, hNode, nodeParams); });
}
