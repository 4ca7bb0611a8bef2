#include "context.h"

#include <atomic>

#include "array.h"
#include "capture.h"
#include "failure.h"
#include "lost_device.h"
#include "module.h"
#include "print_buffer.h"
#include "process.h"

namespace sim {

namespace {

uint64_t next_context_id() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

// Never destroyed: calls may come from the program's exit handlers.
const auto& initial_limits = *new std::map<int, size_t>{
    {CU_LIMIT_STACK_SIZE, 1024},
    {CU_LIMIT_PRINTF_FIFO_SIZE, (size_t{8} << 20) + (size_t{256} << 10)},
    {CU_LIMIT_MALLOC_HEAP_SIZE, size_t{8} << 20},
    {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
    {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
    {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0},
};

}  // namespace

Context::Context(Device& on, unsigned context_flags, unsigned version, bool is_primary)
    : device(on), flags(context_flags), api_version(version), primary(is_primary), id(next_context_id()) {
  revive();
}

void Context::revive() {
  require(!device_lost(device.ordinal), CUDA_ERROR_DEVICE_UNAVAILABLE);
  if (health) health->check();  // a kernel that went wrong costs the process its primary context for good
  destroyed = false;
  limits = initial_limits;
  health = std::make_shared<Health>();
  prints = std::make_shared<PrintBuffer>();
  legacy_ = std::make_shared<Stream>(this, health, 0, 0);
}

void Context::end() {
  destroyed = true;
  legacy_->close(true);
  for (const auto& stream : streams_) stream->close(true);
  streams_.clear();
  retired_.clear();
  per_thread_.clear();
  peers.clear();
}

std::shared_ptr<Stream> Context::make_stream(unsigned stream_flags, int priority) {
  auto stream = std::make_shared<Stream>(this, health, stream_flags, priority);
  streams_.insert(stream);
  return stream;
}

void Context::retire_stream(const std::shared_ptr<Stream>& stream) {
  std::erase_if(retired_, [](const Ticket& ticket) { return ticket.done(); });
  retired_.push_back(stream->last());
  streams_.erase(stream);
}

std::shared_ptr<Stream> Context::stream(CUstream handle, DefaultStream zero) {
  if (handle == CU_STREAM_LEGACY || (handle == nullptr && zero == DefaultStream::legacy)) return legacy_;
  if (handle == CU_STREAM_PER_THREAD || handle == nullptr) {
    auto& own = per_thread_[std::this_thread::get_id()];
    if (!own) own = make_stream(0, 0);
    return own;
  }
  return process().streams.find(handle, CUDA_ERROR_INVALID_HANDLE);
}

std::vector<Ticket> Context::implied_order(Stream& stream) {
  std::vector<Ticket> before;
  if (stream.flags & CU_STREAM_NON_BLOCKING) return before;
  if (&stream != legacy_.get()) {
    before.push_back(legacy_->last());
    return before;
  }
  for (const Ticket& ticket : retired_)
    if (!(ticket.stream->flags & CU_STREAM_NON_BLOCKING)) before.push_back(ticket);
  for (const auto& other : streams_)
    if (!(other->flags & CU_STREAM_NON_BLOCKING)) before.push_back(other->last());
  return before;
}

std::vector<Ticket> Context::everything() {
  std::vector<Ticket> tickets = retired_;
  tickets.push_back(legacy_->last());
  for (const auto& stream : streams_) tickets.push_back(stream->last());
  return tickets;
}

std::vector<std::shared_ptr<Stream>> Context::streams() const { return {streams_.begin(), streams_.end()}; }

std::vector<Ticket> end_context(Context& context) {
  Process& self = process();
  std::vector<Ticket> running = context.everything();
  for (const auto& stream : context.streams()) abandon_capture(*stream);
  context.prints->flush();
  unload_all(context);
  destroy_arrays_of(context);
  context.end();
  auto mine = [&](const auto& object) { return object.context == &context; };
  self.streams.remove_if(mine);
  self.events.remove_if(mine);
  for (const AllocationRef& allocation : self.memory.all())
    if (mine(*allocation)) self.memory.remove(allocation->base);
  for (const auto& other : self.contexts.all()) other->peers.erase(&context);
  return running;
}

std::vector<std::shared_ptr<Context>>& context_stack() {
  thread_local std::vector<std::shared_ptr<Context>> stack;
  return stack;
}

std::shared_ptr<Context> current_even_if_broken() {
  const auto& stack = context_stack();
  require(!stack.empty() && stack.back(), CUDA_ERROR_INVALID_CONTEXT);
  require(!stack.back()->destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return stack.back();
}

std::shared_ptr<Context> current_context() {
  std::shared_ptr<Context> context = current_even_if_broken();
  context->health->check();
  return context;
}

}  // namespace sim
