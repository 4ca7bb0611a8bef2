#include "operation.h"

#include "copy_description.h"
#include "failure.h"
#include "process.h"
#include "transfer.h"

namespace sim {

namespace {

Device& device_of(CUcontext handle, const Stream& stream) {
  if (handle == nullptr) return stream.context->device;
  return process().contexts.find(handle, CUDA_ERROR_INVALID_CONTEXT)->device;
}

std::function<void(Stream&)> calling(const HostOp& op) {
  return [op](Stream& stream) {
    if (!stream.health->broken()) op.function(op.data);
  };
}

// Memory goes when its turn comes; what a graph allocated is only not given out any more.
std::function<void(Stream&)> freeing(CUdeviceptr address) {
  AllocationRef found = process().memory.starting_at(address);
  require(found && (found->kind == Kind::pooled || found->kind == Kind::linear) && !found->freeing);
  if (auto memory = found->graph_memory.lock()) {
    memory->live = false;
    return [](Stream&) {};
  }
  found->freeing = true;
  return [address](Stream&) {
    std::lock_guard lock(process().mutex);
    process().memory.remove(address);
  };
}

Ticket record_in(Event& event, Stream& stream, std::vector<Ticket> before) {
  auto recording = std::make_shared<Recording>();
  Work work;
  const SharedEvent::Turn turn = event.shared ? event.shared->announce() : SharedEvent::Turn{};
  work.run = [recording, shared = event.shared, turn](Stream& stream_now) {
    if (shared) shared->await_turn(turn, [&] { return stream_now.given_up(); });
    auto now = Clock::now().time_since_epoch();
    recording->nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    if (shared) shared->complete(turn.number);
  };
  work.after = std::move(before);
  work.instant = event.shared == nullptr;
  recording->ticket = stream.submit(std::move(work));
  event.recording = recording;
  return recording->ticket;
}

Ticket wait_in(const Event& event, Stream& stream, std::vector<Ticket> before) {
  if (event.shared && !event.shared->done()) {
    auto wait = [shared = event.shared, number = event.shared->latest()](Stream& waiting) {
      shared->wait(number, [&] { return waiting.given_up(); });
    };
    return stream.submit({wait, std::move(before)});
  }
  // Another process may have recorded a shared one since: what this one recorded means nothing then.
  if (event.recording && !event.shared) before.push_back(event.recording->ticket);
  return stream.submit({[](Stream&) {}, std::move(before), true});
}

}  // namespace

CUgraphNodeType type_of(const Operation& operation) {
  constexpr CUgraphNodeType types[] = {
      CU_GRAPH_NODE_TYPE_KERNEL,     CU_GRAPH_NODE_TYPE_MEMCPY,       CU_GRAPH_NODE_TYPE_MEMSET,
      CU_GRAPH_NODE_TYPE_HOST,       CU_GRAPH_NODE_TYPE_GRAPH,        CU_GRAPH_NODE_TYPE_EMPTY,
      CU_GRAPH_NODE_TYPE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
      CU_GRAPH_NODE_TYPE_MEM_FREE,   CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
  static_assert(std::size(types) == std::variant_size_v<Operation>);
  return types[operation.index()];
}

Ticket carry_out(const Operation& operation, const std::shared_ptr<Stream>& stream, std::vector<Ticket> after) {
  for (Ticket& ticket : stream->context->implied_order(*stream)) after.push_back(std::move(ticket));
  if (auto* op = std::get_if<RecordOp>(&operation)) return record_in(*op->event, *stream, std::move(after));
  if (auto* op = std::get_if<WaitOp>(&operation)) return wait_in(*op->event, *stream, std::move(after));
  Work work;
  work.after = std::move(after);
  if (auto* op = std::get_if<KernelOp>(&operation)) work.run = resolved(*op);
  else if (auto* op = std::get_if<CopyOp>(&operation))
    work.run = resolved(transfer_of(op->what), device_of(op->context, *stream));
  else if (auto* op = std::get_if<FillOp>(&operation)) work.run = resolved(op->what, device_of(op->context, *stream));
  else if (auto* op = std::get_if<HostOp>(&operation)) work.run = calling(*op);
  else if (auto* op = std::get_if<FreeOp>(&operation)) work.run = freeing(op->address);
  else if (auto* op = std::get_if<MemoryOp>(&operation)) work.run = resolved(*op);
  else {
    if (auto* op = std::get_if<AllocOp>(&operation)) op->memory->live = true;
    work.run = [](Stream&) {};
    work.instant = true;
  }
  return stream->submit(std::move(work));
}

}  // namespace sim
