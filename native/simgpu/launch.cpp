#include "launch.h"

#include <cstring>
#include <map>
#include <string>
#include <unistd.h>

#include "activity.h"
#include "exec/launch.h"
#include "failure.h"
#include "module.h"
#include "occupancy.h"
#include "print_buffer.h"
#include "process.h"

namespace sim {

namespace {

// What a kernel may touch is what the address map says when it first touches it. The ranges stay as long as the launch.
class ReachableMemory : public exec::MemoryCheck {
 public:
  explicit ReachableMemory(Context& context) : device_(context.device), peers_(context.peers) {}

  bool find(uint64_t address, Range& out) override {
    std::lock_guard lock(process().mutex);
    AllocationRef found = process().memory.reaching(address);
    if (!found || !allowed(*found, out.writable)) return false;
    out.base = found->base;
    out.size = found->reach();
    kept_[found->base] = std::move(found);
    return true;
  }

 private:
  bool allowed(const Allocation& found, bool& writable) const {
    writable = !found.constant;
    if (found.kind == Kind::mapped) {
      auto mine = found.access.find({CU_MEM_LOCATION_TYPE_DEVICE, device_.ordinal});
      if (mine == found.access.end() || mine->second == CU_MEM_ACCESS_FLAGS_PROT_NONE) return false;
      writable = mine->second == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      return true;
    }
    if (!found.on_device() || found.device == &device_) return true;
    if (found.kind == Kind::opened) return &found.context->device == &device_;  // opening it opened the way
    if (found.pool) {
      auto open = found.pool->access.find({CU_MEM_LOCATION_TYPE_DEVICE, device_.ordinal});
      return open != found.pool->access.end() && open->second != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    return found.context != nullptr && peers_.count(found.context) != 0;
  }

  Device& device_;
  const std::set<Context*> peers_;
  std::map<uint64_t, AllocationRef> kept_;
};

CUresult status_of(exec::Fault::Kind kind) {
  using Kind = exec::Fault::Kind;
  switch (kind) {
    case Kind::none:
    case Kind::cancelled:
      return CUDA_SUCCESS;
    case Kind::illegal_address:
    case Kind::stack_error:  // a full stack ends in addresses that are not the thread's
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case Kind::misaligned_address:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case Kind::invalid_space:
      return CUDA_ERROR_INVALID_ADDRESS_SPACE;
    case Kind::invalid_pc:
      return CUDA_ERROR_INVALID_PC;
    case Kind::illegal_instruction:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case Kind::assertion:
      return CUDA_ERROR_ASSERT;
    case Kind::trap:
      return CUDA_ERROR_LAUNCH_FAILED;
    case Kind::out_of_memory:
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_ERROR_UNKNOWN;
}

uint32_t next_grid_number() {
  static std::atomic<uint32_t> next{1};
  return next++;
}

std::vector<std::byte> from_buffer(const ptx::Kernel& kernel, void* const* extra) {
  const void* buffer = nullptr;
  const size_t* size = nullptr;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) size = static_cast<const size_t*>(extra[1]);
    else fail(CUDA_ERROR_INVALID_VALUE);
  }
  std::vector<std::byte> bytes(kernel.parameter_bytes);
  if (kernel.parameter_bytes == 0) return bytes;
  // The driver takes a buffer that is too short, and as it is.
  require(buffer != nullptr && size != nullptr && *size != 0);
  require(*size <= kernel.parameter_bytes, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  std::memcpy(bytes.data(), buffer, *size);
  return bytes;
}

// Runs in the stream's thread.
void run_in(Stream& stream, const KernelOp& op, const std::shared_ptr<const Code>& code, ReachableMemory& memory,
            const std::shared_ptr<PrintBuffer>& printer, uint32_t stack) {
  exec::Launch launch;
  launch.grid = op.grid;
  launch.block = op.block;
  launch.dynamic_shared = op.shared;
  launch.parameters = op.parameters.data();
  launch.memory = &memory;
  launch.printer = printer.get();
  launch.cancel = &stream.giving_up();
  launch.cooperative = op.cooperative;
  launch.stack_bytes = stack;
  launch.grid_number = next_grid_number();
  exec::Fault fault = exec::run(code->image, op.function->kernel, launch);
  if (fault.kind == exec::Fault::Kind::assertion) {
    printer->flush();
    std::string line = fault.message + "\n";
    [[maybe_unused]] auto written = write(STDERR_FILENO, line.data(), line.size());
  }
  if (CUresult status = status_of(fault.kind); status != CUDA_SUCCESS) stream.health->break_by(status);
}

}  // namespace

std::vector<std::byte> parameters_of(const Function& function, void* const* pointers, void* const* extra) {
  const ptx::Kernel& kernel = function.kernel;
  require(pointers == nullptr || extra == nullptr);
  if (extra != nullptr) return from_buffer(kernel, extra);
  std::vector<std::byte> bytes(kernel.parameter_bytes);
  require(pointers != nullptr || kernel.parameters.empty());
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    require(pointers[i] != nullptr);
    std::memcpy(bytes.data() + kernel.parameters[i].offset, pointers[i], kernel.parameters[i].size);
  }
  return bytes;
}

void apply_attributes(KernelOp& op, const CUlaunchAttribute* attributes, unsigned count) {
  require(attributes != nullptr || count == 0);
  for (unsigned i = 0; i < count; ++i) {
    const CUlaunchAttributeValue& value = attributes[i].value;
    switch (attributes[i].id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        op.cooperative = value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        require(value.clusterDim.x <= 1 && value.clusterDim.y <= 1 && value.clusterDim.z <= 1,
                CUDA_ERROR_NOT_SUPPORTED);
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        fail(CUDA_ERROR_NOT_SUPPORTED);
      default:  // hints
        require(attributes[i].id < CU_LAUNCH_ATTRIBUTE_MAX);
    }
  }
}

void check(const KernelOp& op) {
  const Function& function = *op.function;
  require(!function.module.expired(), CUDA_ERROR_INVALID_HANDLE);
  constexpr std::array<uint32_t, 3> most_grid{0x7fffffff, 65535, 65535}, most_block{1024, 1024, 64};
  for (size_t i = 0; i < 3; ++i) {
    require(op.grid[i] != 0 && op.grid[i] <= most_grid[i]);
    require(op.block[i] != 0 && op.block[i] <= most_block[i]);
  }
  uint64_t threads = uint64_t{op.block[0]} * op.block[1] * op.block[2];
  require(threads <= threads_of_block);
  const auto& required = function.kernel.required_block;
  require(required[0] == 0 || required == op.block);
  require(function.kernel.max_threads == 0 || threads <= function.kernel.max_threads);
  require(threads <= function.max_threads(), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  require(op.shared <= function.dynamic_shared_limit());
  const auto& cluster = function.kernel.required_cluster;
  require(uint64_t{cluster[0]} * cluster[1] * cluster[2] <= 1, CUDA_ERROR_NOT_SUPPORTED);
  if (!op.cooperative) return;
  uint64_t blocks = uint64_t{op.grid[0]} * op.grid[1] * op.grid[2];
  require(blocks <= blocks_on_device(function, static_cast<unsigned>(threads), op.shared),
          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

std::function<void(Stream&)> resolved(const KernelOp& op) {
  check(op);
  Context& context = op.function->context;
  auto memory = std::make_shared<ReachableMemory>(context);
  auto stack = static_cast<uint32_t>(context.limits[CU_LIMIT_STACK_SIZE]);
  auto run = [op, code = op.function->code, memory, printer = context.prints, stack](Stream& stream) {
    if (!stream.health->broken()) run_in(stream, op, code, *memory, printer, stack);
  };
  return told({ActivityKind::kernel, op.function->kernel.name}, std::move(run));
}

}  // namespace sim
