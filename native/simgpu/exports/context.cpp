// Contexts made by the program, the stack of each thread, and what is asked of the current one.
#include "capture.h"
#include "entry.h"
#include "print_buffer.h"

using namespace sim;

namespace {

constexpr unsigned schedule_flags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX |
                                    CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE | CU_CTX_SYNC_MEMOPS;

void create(CUcontext* out, unsigned flags, CUdevice ordinal, unsigned version) {
  require(out != nullptr && (flags & ~schedule_flags) == 0);
  auto context = std::make_shared<Context>(process().device(ordinal), flags, version, false);
  *out = process().contexts.add(context);
  context_stack().push_back(std::move(context));
}

std::shared_ptr<Context> named(CUcontext handle) {
  return process().contexts.find(handle, CUDA_ERROR_INVALID_CONTEXT);
}

std::shared_ptr<Context> named_or_current(CUcontext handle) {
  return handle != nullptr ? named(handle) : current_context();
}

// What the context still runs.
std::vector<Ticket> end(CUcontext handle) {
  require(handle != nullptr, CUDA_ERROR_INVALID_VALUE);
  Process& all = process();
  require(all.contexts.look(handle) || !all.ended_contexts.contains(handle), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  std::shared_ptr<Context> context = named(handle);
  require(!context->primary, CUDA_ERROR_INVALID_CONTEXT);
  std::vector<Ticket> running = end_context(*context);
  all.contexts.remove(handle, CUDA_ERROR_INVALID_CONTEXT);
  all.ended_contexts.insert(handle);
  auto& stack = context_stack();
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  return running;
}

void destroy(CUcontext handle) {
  std::vector<Ticket> running;
  {
    Section section;
    running = end(handle);
  }
  wait_all(running);  // what it writes may be somebody else's memory when the caller goes on
}

void push(CUcontext handle) {
  require(handle != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  context_stack().push_back(named(handle));
}

void pop(CUcontext* out) {
  auto& stack = context_stack();
  require(!stack.empty() && stack.back() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  if (out != nullptr) *out = stack.back()->handle();
  stack.pop_back();
}

void synchronize(CUcontext handle) {
  std::vector<Ticket> tickets;
  std::shared_ptr<Context> context;
  {
    Section section;
    context = named_or_current(handle);
    context->health->check();
    forbid_capturing(*context);
    tickets = context->everything();
  }
  wait_all(tickets);
  context->prints->flush();
  context->health->check();
}

}  // namespace

SIM_API(cuCtxCreate_v2, change, (CUcontext* out, unsigned flags, CUdevice device), (out, flags, device)) {
  create(out, flags, device, 3020);
}

SIM_API(cuCtxCreate_v3, change,
        (CUcontext* out, CUexecAffinityParam*, int affinities, unsigned flags, CUdevice device),
        (out, nullptr, affinities, flags, device)) {
  require(affinities == 0, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  create(out, flags, device, 3020);
}

SIM_API(cuCtxCreate_v4, change, (CUcontext* out, CUctxCreateParams* params, unsigned flags, CUdevice device),
        (out, params, flags, device)) {
  if (params != nullptr) {
    require(params->numExecAffinityParams == 0, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    require(params->cigParams == nullptr, CUDA_ERROR_NOT_SUPPORTED);
  }
  create(out, flags, device, 3020);
}

SIM_API(cuCtxDestroy_v2, wait, (CUcontext handle), (handle)) { destroy(handle); }
SIM_API(cuCtxDestroy, wait, (CUcontext handle), (handle)) { destroy(handle); }
// The uses that it counts begin with the one of the creation, and cuCtxAttach, which adds some, is missing.
SIM_API(cuCtxDetach, wait, (CUcontext handle), (handle)) { destroy(handle); }

SIM_API(cuCtxPushCurrent_v2, query, (CUcontext handle), (handle)) { push(handle); }
SIM_API(cuCtxPushCurrent, query, (CUcontext handle), (handle)) { push(handle); }
SIM_API(cuCtxPopCurrent_v2, query, (CUcontext* out), (out)) { pop(out); }
SIM_API(cuCtxPopCurrent, query, (CUcontext* out), (out)) { pop(out); }

SIM_API(cuCtxSetCurrent, query, (CUcontext handle), (handle)) {
  auto& stack = context_stack();
  if (handle == nullptr) {
    if (!stack.empty()) stack.pop_back();
    return;
  }
  std::shared_ptr<Context> context = named(handle);
  if (stack.empty()) stack.push_back(std::move(context));
  else stack.back() = std::move(context);
}

SIM_API(cuCtxGetCurrent, query, (CUcontext* out), (out)) {
  require(out != nullptr);
  const auto& stack = context_stack();
  *out = stack.empty() || !stack.back() ? nullptr : stack.back()->handle();
}

SIM_API(cuCtxGetDevice, query, (CUdevice* out), (out)) {
  require(out != nullptr);
  *out = current_even_if_broken()->device.ordinal;
}

SIM_API(cuCtxGetDevice_v2, query, (CUdevice* out, CUcontext handle), (out, handle)) {
  require(out != nullptr);
  *out = named_or_current(handle)->device.ordinal;
}

SIM_API(cuCtxGetFlags, query, (unsigned* out), (out)) {
  require(out != nullptr);
  *out = current_even_if_broken()->flags | CU_CTX_MAP_HOST;  // which contexts have without being asked
}

SIM_API(cuCtxSetFlags, change, (unsigned flags), (flags)) {
  require((flags & ~schedule_flags) == 0);
  current_context()->flags = flags;
}

SIM_API(cuCtxGetId, query, (CUcontext handle, unsigned long long* out), (handle, out)) {
  require(out != nullptr);
  *out = named_or_current(handle)->id;
}

SIM_API(cuCtxGetApiVersion, query, (CUcontext handle, unsigned* out), (handle, out)) {
  require(out != nullptr);
  *out = named_or_current(handle)->api_version;
}

SIM_API(cuCtxSynchronize, wait, (), ()) { synchronize(nullptr); }
SIM_API(cuCtxSynchronize_v2, wait, (CUcontext handle), (handle)) { synchronize(handle); }

SIM_API(cuCtxGetLimit, query, (size_t* out, CUlimit limit), (out, limit)) {
  require(out != nullptr);
  std::shared_ptr<Context> context = current_context();
  auto found = context->limits.find(limit);
  require(found != context->limits.end(), CUDA_ERROR_UNSUPPORTED_LIMIT);
  *out = found->second;
}

constexpr size_t most_stack = size_t{512} << 10;  // local memory that a thread can have

SIM_API(cuCtxSetLimit, change, (CUlimit limit, size_t value), (limit, value)) {
  std::shared_ptr<Context> context = current_context();
  forbid_unsafe();
  auto found = context->limits.find(limit);
  require(found != context->limits.end(), CUDA_ERROR_UNSUPPORTED_LIMIT);
  require(limit != CU_LIMIT_STACK_SIZE || value <= most_stack);
  found->second = value;
  if (limit == CU_LIMIT_PRINTF_FIFO_SIZE) context->prints->limit(value);
}

SIM_API(cuCtxGetCacheConfig, query, (CUfunc_cache* out), (out)) {
  require(out != nullptr);
  *out = current_context()->cache_config;
}

SIM_API(cuCtxSetCacheConfig, change, (CUfunc_cache config), (config)) { current_context()->cache_config = config; }

SIM_API(cuCtxGetSharedMemConfig, query, (CUsharedconfig* out), (out)) {
  require(out != nullptr);
  *out = current_context()->shared_config;
}

SIM_API(cuCtxSetSharedMemConfig, change, (CUsharedconfig config), (config)) {
  current_context()->shared_config = config;
}

SIM_API(cuCtxGetStreamPriorityRange, query, (int* least, int* greatest), (least, greatest)) {
  current_context();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
}

SIM_API(cuCtxResetPersistingL2Cache, change, (), ()) { current_context(); }

SIM_API(cuCtxEnablePeerAccess, change, (CUcontext peer, unsigned flags), (peer, flags)) {
  require(flags == 0);
  std::shared_ptr<Context> context = current_context(), other = named(peer);
  require(&context->device != &other->device, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  require(context->peers.insert(other.get()).second, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
}

SIM_API(cuCtxDisablePeerAccess, change, (CUcontext peer), (peer)) {
  std::shared_ptr<Context> context = current_context(), other = named(peer);
  require(context->peers.erase(other.get()) != 0, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}
