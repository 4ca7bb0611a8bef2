// Streams that wait for a value in memory, or write one.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <type_traits>

#include "capture.h"
#include "entry.h"

using namespace sim;

namespace {

constexpr unsigned wait_flags = CU_STREAM_WAIT_VALUE_EQ | CU_STREAM_WAIT_VALUE_AND | CU_STREAM_WAIT_VALUE_NOR |
                                CU_STREAM_WAIT_VALUE_FLUSH;

template <typename Word>
bool met(Word now, Word wanted, unsigned how) {
  switch (how & ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH)) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & wanted) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return static_cast<Word>(~(now | wanted)) != 0;
    default:  // greater or equal, on a circle
      return static_cast<std::make_signed_t<Word>>(now - wanted) >= 0;
  }
}

// The memory that a word lies in, so that it outlives the work on it.
template <typename Word>
AllocationRef holder(CUdeviceptr address) {
  require(address % sizeof(Word) == 0);
  auto parts = process().memory.covering(address, sizeof(Word));
  require(!parts.empty());
  return parts.front();
}

template <typename Word>
std::function<void(Stream&)> waiting(CUdeviceptr address, Word wanted, unsigned how) {
  require((how & ~wait_flags) == 0);
  return [memory = holder<Word>(address), address, wanted, how](Stream& stream) {
    auto& word = *reinterpret_cast<Word*>(address);
    auto pause = std::chrono::microseconds(10);
    // Whoever writes the word tells nobody, so it has to be looked at; less often the longer it takes.
    while (!met(std::atomic_ref<Word>(word).load(), wanted, how) && !stream.given_up()) {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::microseconds(1000));
    }
  };
}

template <typename Word>
std::function<void(Stream&)> writing(CUdeviceptr address, Word value, unsigned how) {
  require((how & ~static_cast<unsigned>(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)) == 0);
  return [memory = holder<Word>(address), address, value](Stream&) {
    std::atomic_ref<Word>(*reinterpret_cast<Word*>(address)).store(value);
  };
}

std::function<void(Stream&)> one_of_batch(const CUstreamBatchMemOpParams& op) {
  switch (op.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return waiting<uint32_t>(op.waitValue.address, op.waitValue.value, op.waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return waiting<uint64_t>(op.waitValue.address, op.waitValue.value64, op.waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return writing<uint32_t>(op.writeValue.address, op.writeValue.value, op.writeValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return writing<uint64_t>(op.writeValue.address, op.writeValue.value64, op.writeValue.flags);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      return [](Stream&) {};
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

void submit(CUstream handle, DefaultStream zero, std::vector<CUstreamBatchMemOpParams> steps) {
  std::shared_ptr<Context> context = current_context();
  for (const auto& step : steps) one_of_batch(step);  // checked before it is captured
  capture_or_carry_out(context->stream(handle, zero), MemoryOp{std::move(steps), context->handle()});
}

void batch(CUstream handle, DefaultStream zero, unsigned count, const CUstreamBatchMemOpParams* ops, unsigned flags) {
  require(ops != nullptr && flags == 0 && count <= 256);
  submit(handle, zero, {ops, ops + count});
}

CUstreamBatchMemOpParams described(CUstreamBatchMemOpType kind, CUdeviceptr address, cuuint64_t value, unsigned how) {
  CUstreamBatchMemOpParams step{};
  step.operation = kind;
  bool waits = kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || kind == CU_STREAM_MEM_OP_WAIT_VALUE_64;
  // Both members have the same layout; the union is written by the one that is read.
  if (waits) {
    step.waitValue.address = address;
    step.waitValue.value64 = value;
    step.waitValue.flags = how;
  } else {
    step.writeValue.address = address;
    step.writeValue.value64 = value;
    step.writeValue.flags = how;
  }
  return step;
}

}  // namespace

std::function<void(Stream&)> sim::resolved(const MemoryOp& op) {
  std::vector<std::function<void(Stream&)>> steps;
  for (const auto& step : op.steps) steps.push_back(one_of_batch(step));
  return [steps = std::move(steps)](Stream& stream) {
    for (const auto& step : steps) step(stream);
  };
}

#define VALUE_CALLS(name, version, kind, type)                                                                   \
  SIM_STREAM_API(name##version, _ptsz, change, (CUstream stream, CUdeviceptr address, type value, unsigned how), \
                 (stream, address, value, how)) {                                                                \
    submit(stream, zero, {described(CU_STREAM_MEM_OP_##kind, address, value, how)});                             \
  }
#define VALUE_CALLS_OF(version)                                   \
  VALUE_CALLS(cuStreamWaitValue32, version, WAIT_VALUE_32, cuuint32_t)  \
  VALUE_CALLS(cuStreamWaitValue64, version, WAIT_VALUE_64, cuuint64_t)  \
  VALUE_CALLS(cuStreamWriteValue32, version, WRITE_VALUE_32, cuuint32_t) \
  VALUE_CALLS(cuStreamWriteValue64, version, WRITE_VALUE_64, cuuint64_t)

VALUE_CALLS_OF()
VALUE_CALLS_OF(_v2)

SIM_STREAM_API(cuStreamBatchMemOp, _ptsz, change,
               (CUstream stream, unsigned count, CUstreamBatchMemOpParams* ops, unsigned flags),
               (stream, count, ops, flags)) {
  batch(stream, zero, count, ops, flags);
}

SIM_STREAM_API(cuStreamBatchMemOp_v2, _ptsz, change,
               (CUstream stream, unsigned count, CUstreamBatchMemOpParams* ops, unsigned flags),
               (stream, count, ops, flags)) {
  batch(stream, zero, count, ops, flags);
}
