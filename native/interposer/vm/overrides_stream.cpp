// Deferred work that is no kernel: graphs, and what moves or fills memory.
#include <algorithm>
#include <array>

#include "../arena/arena.h"
#include "../generated/hooks.h"
#include "defer.h"
#include "forget.h"
#include "pinned.h"
#include "recordings.h"

namespace torpor::vm {
namespace {

struct HostCopy {
  CUdeviceptr device;
  void* host;
  std::uint64_t bytes;
  CUstream stream;
};

struct GraphLaunch {
  CUgraphExec graph;
  CUstream stream;
};

struct Fill {
  CUdeviceptr to;
  std::uint64_t count;
  CUstream stream;
  std::uint32_t value;
};

struct Copy {
  CUdeviceptr to, from;
  std::uint64_t bytes;
  CUstream stream;
};

// All of it lies in one living allocation of this context: the driver will take it.
bool is_ours(CUdeviceptr address, std::uint64_t bytes, CUcontext context) {
  arena::Arena* const arena = arena::Arena::get();
  const auto allocation = arena != nullptr && bytes != 0 ? arena->find(address) : std::nullopt;
  return allocation && allocation->context == context && bytes <= allocation->size &&
         address - allocation->address <= allocation->size - bytes;
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

// Defers work on memory of the program's. `ours` says whether the driver would take it in that context.
template <typename Arguments, typename Ours, typename Straight>
CUresult defer_on_memory(CUresult (*call)(Item&), const Arguments& arguments, Ours ours, Straight straight) noexcept {
  return arena::guarded([&] {
    Key key;
    key.call = Call::memory;  // what is left to prove is the stream
    const auto context = deferrable(arguments.stream);
    if (!context || !ours(*context)) return go_straight(straight);
    return defer_proven(key, arguments.stream, call, arguments, straight);
  });
}

template <typename Value, CUresult (*Real)(CUdeviceptr, Value, std::size_t, CUstream)>
CUresult fill(CUdeviceptr to, Value value, std::size_t count, CUstream stream) {
  const auto straight = [&] { return Real(to, value, count, stream); };
  if (!willing()) return go_straight(straight);
  const auto call = [](Item& item) {
    const auto it = arguments_of<Fill>(item);
    return Real(it.to, static_cast<Value>(it.value), it.count, it.stream);
  };
  std::uint64_t bytes = 0;
  const bool sized = !__builtin_mul_overflow(count, sizeof(Value), &bytes) && to % sizeof(Value) == 0;
  return defer_on_memory(
      call, Fill{to, count, stream, value}, [&](CUcontext context) { return sized && is_ours(to, bytes, context); }, straight);
}

}  // namespace
}  // namespace torpor::vm

using namespace torpor::vm;
namespace real = torpor::real;

extern "C" CUresult torpor_hook_cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return fill<unsigned char, real::cuMemsetD8Async>(dstDevice, uc, N, hStream);
}

extern "C" CUresult torpor_hook_cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
  return fill<unsigned short, real::cuMemsetD16Async>(dstDevice, us, N, hStream);
}

extern "C" CUresult torpor_hook_cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return fill<unsigned int, real::cuMemsetD32Async>(dstDevice, ui, N, hStream);
}

extern "C" CUresult torpor_hook_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                                     CUstream hStream) {
  const auto straight = [&] { return real::cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream); };
  if (!willing()) return go_straight(straight);
  const auto call = [](Item& item) {
    const auto it = arguments_of<Copy>(item);
    return real::cuMemcpyDtoDAsync_v2(it.to, it.from, it.bytes, it.stream);
  };
  const auto ours = [&](CUcontext context) {
    return is_ours(dstDevice, ByteCount, context) && is_ours(srcDevice, ByteCount, context);
  };
  return defer_on_memory(call, Copy{dstDevice, srcDevice, ByteCount, hStream}, ours, straight);
}

// The stream reads or writes pinned memory when it gets there, so later than the call natively, too.
extern "C" CUresult torpor_hook_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                                     CUstream hStream) {
  const auto straight = [&] { return real::cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, hStream); };
  if (!willing()) return go_straight(straight);
  const auto call = [](Item& item) {
    const auto it = arguments_of<HostCopy>(item);
    return real::cuMemcpyHtoDAsync_v2(it.device, it.host, it.bytes, it.stream);
  };
  const auto ours = [&](CUcontext context) {
    return pinned::contains(srcHost, ByteCount) && is_ours(dstDevice, ByteCount, context);
  };
  return defer_on_memory(call, HostCopy{dstDevice, const_cast<void*>(srcHost), ByteCount, hStream}, ours, straight);
}

extern "C" CUresult torpor_hook_cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                                     CUstream hStream) {
  const auto straight = [&] { return real::cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, hStream); };
  if (!willing()) return go_straight(straight);
  const auto call = [](Item& item) {
    const auto it = arguments_of<HostCopy>(item);
    return real::cuMemcpyDtoHAsync_v2(it.host, it.device, it.bytes, it.stream);
  };
  const auto ours = [&](CUcontext context) {
    return pinned::contains(dstHost, ByteCount) && is_ours(srcDevice, ByteCount, context);
  };
  return defer_on_memory(call, HostCopy{srcDevice, dstHost, ByteCount, hStream}, ours, straight);
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
