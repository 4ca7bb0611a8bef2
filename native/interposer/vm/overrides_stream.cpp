// Deferred work that is no kernel: graphs, and what moves or fills memory.
#include <algorithm>
#include <array>

#include "../arena/arena.h"
#include "../generated/hooks.h"
#include "defer.h"
#include "forget.h"
#include "memory_work.h"
#include "pinned.h"
#include "recordings.h"

namespace torpor::vm {
namespace {

struct GraphLaunch {
  CUgraphExec graph;
  CUstream stream;
};

// The number of the one living allocation of this context in which all of it lies: the driver will take it. Null for none.
std::uint64_t ours(CUdeviceptr address, std::uint64_t bytes, CUcontext context) {
  arena::Arena* const arena = arena::Arena::get();
  const auto allocation = arena != nullptr && bytes != 0 ? arena->find(address) : std::nullopt;
  const bool whole = allocation && allocation->context == context && bytes <= allocation->size &&
                     address - allocation->address <= allocation->size - bytes;
  return whole ? allocation->id : 0;
}

// Memory that a graph allocated must be free when it is launched again, so one good launch says nothing about the next.
// Asked after a launch, when memory that it allocated counts.
bool graphs_allocate() {
  CUdevice device = 0;
  if (real::cuCtxGetDevice(&device) != CUDA_SUCCESS) return true;
  constexpr std::array kAmounts{CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
                                CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH};
  return std::ranges::any_of(kAmounts, [&](CUgraphMem_attribute amount) {
    std::uint64_t bytes = 0;
    return real::cuDeviceGetGraphMemAttribute(device, amount, &bytes) != CUDA_SUCCESS || bytes != 0;
  });
}

// Defers work on memory of the program's. `known` says whether the driver would take it in that context, and notes in the
// arguments which memory it is.
template <typename Arguments, typename Known, typename Straight>
CUresult defer_on_memory(CUresult (*call)(Item&), Arguments arguments, Known known, Straight straight) noexcept {
  return arena::guarded([&] {
    Key key;
    key.call = Call::memory;  // what is left to prove is the stream
    const auto context = deferrable(arguments.stream);
    if (!context || !known(*context, arguments)) return go_straight(straight);
    return defer_proven(key, arguments.stream, call, arguments, straight);
  });
}

template <typename Value, CUresult (*Real)(CUdeviceptr, Value, std::size_t, CUstream)>
CUresult fill(CUresult (*call)(Item&), CUdeviceptr to, Value value, std::size_t count, CUstream stream) {
  const auto straight = [&] { return Real(to, value, count, stream); };
  if (!willing()) return go_straight(straight);
  std::uint64_t bytes = 0;
  const bool sized = !__builtin_mul_overflow(count, sizeof(Value), &bytes) && to % sizeof(Value) == 0;
  const auto known = [&](CUcontext context, Fill& it) { return sized && (it.memory = ours(to, bytes, context)) != 0; };
  return defer_on_memory(call, Fill{to, count, value, 0, stream}, known, straight);
}

std::uint64_t host(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

}  // namespace

CUresult fill_8(Item& item) {
  const auto it = arguments_of<Fill>(item);
  return real::cuMemsetD8Async(it.to, static_cast<unsigned char>(it.value), it.count, it.stream);
}

CUresult fill_16(Item& item) {
  const auto it = arguments_of<Fill>(item);
  return real::cuMemsetD16Async(it.to, static_cast<unsigned short>(it.value), it.count, it.stream);
}

CUresult fill_32(Item& item) {
  const auto it = arguments_of<Fill>(item);
  return real::cuMemsetD32Async(it.to, static_cast<unsigned>(it.value), it.count, it.stream);
}

CUresult copy_within(Item& item) {
  const auto it = arguments_of<Copy>(item);
  return real::cuMemcpyDtoDAsync_v2(it.to, it.from, it.bytes, it.stream);
}

CUresult copy_in(Item& item) {
  const auto it = arguments_of<Copy>(item);
  return real::cuMemcpyHtoDAsync_v2(it.to, reinterpret_cast<const void*>(it.from), it.bytes, it.stream);
}

CUresult copy_out(Item& item) {
  const auto it = arguments_of<Copy>(item);
  return real::cuMemcpyDtoHAsync_v2(reinterpret_cast<void*>(it.to), it.from, it.bytes, it.stream);
}

}  // namespace torpor::vm

using namespace torpor::vm;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return fill<unsigned char, real::cuMemsetD8Async>(fill_8, dstDevice, uc, N, hStream);
}

extern "C" CUresult torpor_hook_cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
  return fill<unsigned short, real::cuMemsetD16Async>(fill_16, dstDevice, us, N, hStream);
}

extern "C" CUresult torpor_hook_cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return fill<unsigned int, real::cuMemsetD32Async>(fill_32, dstDevice, ui, N, hStream);
}

extern "C" CUresult torpor_hook_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                                     CUstream hStream) {
  const auto straight = [&] { return real::cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream); };
  if (!willing()) return go_straight(straight);
  const auto known = [&](CUcontext context, Copy& it) {
    it.to_memory = ours(dstDevice, ByteCount, context);
    it.from_memory = ours(srcDevice, ByteCount, context);
    return it.to_memory != 0 && it.from_memory != 0;
  };
  return defer_on_memory(copy_within, Copy{dstDevice, srcDevice, ByteCount, 0, 0, hStream}, known, straight);
}

// The stream reads or writes pinned memory when it gets there, so later than the call natively, too.
extern "C" CUresult torpor_hook_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                                     CUstream hStream) {
  const auto straight = [&] { return real::cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, hStream); };
  if (!willing()) return go_straight(straight);
  const auto known = [&](CUcontext context, Copy& it) {
    it.to_memory = ours(dstDevice, ByteCount, context);
    it.from_memory = pinned::find(srcHost, ByteCount);
    return it.to_memory != 0 && it.from_memory != 0;
  };
  return defer_on_memory(copy_in, Copy{dstDevice, host(srcHost), ByteCount, 0, 0, hStream}, known, straight);
}

extern "C" CUresult torpor_hook_cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                                     CUstream hStream) {
  const auto straight = [&] { return real::cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, hStream); };
  if (!willing()) return go_straight(straight);
  const auto known = [&](CUcontext context, Copy& it) {
    it.to_memory = pinned::find(dstHost, ByteCount);
    it.from_memory = ours(srcDevice, ByteCount, context);
    return it.to_memory != 0 && it.from_memory != 0;
  };
  return defer_on_memory(copy_out, Copy{host(dstHost), srcDevice, ByteCount, 0, 0, hStream}, known, straight);
}

extern "C" CUresult torpor_hook_cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  // It may record events, and wait for them.
  const auto straight = [&] { return recordings::unseen([&] { return real::cuGraphLaunch(hGraphExec, hStream); }); };
  if (!willing()) return go_straight(straight);
  const auto call = [](Item& item) {
    const auto it = arguments_of<GraphLaunch>(item);
    return real::cuGraphLaunch(it.graph, it.stream);
  };
  const auto lasting = [] { return !events_are_shared() && !graphs_allocate(); };
  const auto proven = [](Turn&, Item&, CUcontext) {
    recordings::lose_sight();
    return Way::queue;
  };
  Key key;
  key.call = Call::graph_launch;
  key.object = reinterpret_cast<std::uint64_t>(hGraphExec);
  return defer_proven(key, hStream, call, GraphLaunch{hGraphExec, hStream}, straight, lasting, proven);
}
