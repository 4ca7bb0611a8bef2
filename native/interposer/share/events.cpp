#include "events.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <unordered_map>

#include "../arena/arena.h"
#include "../arena/contexts.h"
#include "../generated/real.h"
#include "../hooks/aside.h"
#include "../prim/fork_hold.h"
#include "../prim/log.h"
#include "../prim/thread.h"
#include "../vm/forget.h"
#include "client.h"
#include "event_table.h"
#include "marks.h"
#include "server.h"

namespace torpor::share::events {
namespace {

constexpr unsigned kFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

struct Entry {
  arena::SharedName name;  // as its maker gave it
  bool made_here = false;
  std::uint64_t place = 0;
  EventWord* word = nullptr;
  CUcontext context = nullptr;
  std::uint64_t recorded = 0;  // the number of the recording that the driver's event has
  bool captured = false;       // that recording is a graph's
  Recording settled;           // of another process, the last that is known to be done
};

struct Table {
  std::mutex lock;
  std::unordered_map<CUevent, Entry> living;
  std::unordered_map<std::uint64_t, std::uint64_t> places;  // of those made here, by number
  std::uint64_t next = 1;
  Marks marks;
};

Table& table() {
  static auto* const instance = new Table;
  return *instance;
}

// The process that has events here; a forked child has none.
constinit std::atomic<pid_t> owner{0};

std::optional<Entry> find(CUevent event) {
  const std::lock_guard guard(table().lock);
  const auto found = table().living.find(event);
  return found != table().living.end() ? std::optional(found->second) : std::nullopt;
}

void add(CUevent event, const Entry& entry) {
  {
    const std::lock_guard guard(table().lock);
    table().living.insert_or_assign(event, entry);
    if (entry.made_here) table().places.emplace(entry.name.block, entry.place);
  }
  owner.store(::getpid());
  if (!vm::events_are_shared()) vm::share_event();
}

// With the lock held.
void drop(const Entry& entry) {
  if (!entry.made_here) return;
  table().places.erase(entry.name.block);
  event_table::give(entry.place);
}

bool is_done(const EventRequest& question) {
  const auto reply = ask(question);
  return reply && (reply->known == 0 || reply->done != 0);
}

// Runs in a stream, as a host function.
void ask_until_done(void* data) {
  const std::unique_ptr<EventRequest> question(static_cast<EventRequest*>(data));
  for (long pause = 20; !is_done(*question); pause = std::min(2 * pause, 1000L)) thread::sleep_microseconds(pause);
}

CUresult ask_in(CUstream stream, const EventRequest& question, const Calls& calls) {
  auto kept = std::make_unique<EventRequest>(question);
  const CUresult result = calls.launch_host(stream, ask_until_done, kept.get());
  if (result == CUDA_SUCCESS) static_cast<void>(kept.release());
  return result;
}

}  // namespace

const Calls kLegacy{real::cuEventRecord, real::cuStreamWaitEvent, real::cuStreamIsCapturing, real::cuLaunchHostFunc};
const Calls kPerThread{real::cuEventRecord_ptsz, real::cuStreamWaitEvent_ptsz, real::cuStreamIsCapturing_ptsz,
                       real::cuLaunchHostFunc_ptsz};

bool contains(CUevent event) {
  const pid_t process = owner.load(std::memory_order_relaxed);
  return process != 0 && process == ::getpid() && find(event).has_value();
}

std::optional<CUresult> create(CUevent* out, unsigned flags) {
  const bool shareable = (flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) != 0;
  if (!shareable || (flags & ~kFlags) != 0 || out == nullptr || arena::Arena::get() == nullptr) return std::nullopt;
  Entry entry;
  if (real::cuCtxGetCurrent(&entry.context) != CUDA_SUCCESS || entry.context == nullptr || !serve()) return std::nullopt;
  {
    const std::lock_guard guard(table().lock);
    const auto place = event_table::take();
    if (!place) return std::nullopt;
    entry.made_here = true;
    entry.place = *place;
    entry.word = &event_table::own(*place);
    entry.name = arena::own_name();
    entry.name.block = table().next++;
  }
  const CUresult result = real::cuEventCreate(out, flags & ~static_cast<unsigned>(CU_EVENT_INTERPROCESS));
  if (result == CUDA_SUCCESS) {
    add(*out, entry);
  } else {
    const std::lock_guard guard(table().lock);
    drop(entry);
  }
  return result;
}

CUresult give_handle(CUipcEventHandle* out, CUevent event) {
  const auto entry = find(event);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The driver gives no handle of an event that came by one.
  if (!entry || !entry->made_here) return CUDA_ERROR_INVALID_HANDLE;
  EventHandle handle;
  handle.event = entry->name;
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

CUresult open(CUevent* out, const CUipcEventHandle& opaque) {
  EventHandle handle;
  std::memcpy(static_cast<void*>(&handle), &opaque, sizeof handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  contexts::Context context;
  if (const CUresult result = contexts::current(context); result != CUDA_SUCCESS) return result;
  arena::SharedName own = arena::own_name();
  own.block = handle.event.block;
  if (handle.event == own) return CUDA_ERROR_INVALID_CONTEXT;  // as the driver, where it was made
  if (!serve()) return CUDA_ERROR_INVALID_HANDLE;
  EventRequest question;
  question.event = handle.event;
  question.pid = handle.event.pid;
  const ForkHold hold;
  Descriptor memory;
  const auto reply = ask(question, memory);
  if (!reply) return CUDA_ERROR_OPERATING_SYSTEM;
  if (reply->known == 0) return CUDA_ERROR_INVALID_HANDLE;
  Entry entry;
  entry.name = handle.event;
  {
    const std::lock_guard guard(table().lock);
    entry.word = event_table::of(handle.event, memory, reply->place);
  }
  if (entry.word == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  real::cuCtxGetCurrent(&entry.context);
  const CUresult result = real::cuEventCreate(out, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) add(*out, entry);
  return result;
}

void forget(CUevent event) {
  if (!contains(event)) return;
  const std::lock_guard guard(table().lock);
  if (const auto found = table().living.extract(event)) drop(found.mapped());
}

void follow(CUevent event, CUstream stream, const Calls& calls) {
  const auto entry = find(event);
  if (!entry || entry->captured) return;
  const Recording before = entry->word->latest();
  if (before.number == 0 || before == entry->settled) return;
  const Latest latest(event);
  if (latest.question()) {
    ask_in(stream, *latest.question(), calls);  // nobody's answer is waited for here
  } else {
    calls.wait(stream, latest.event(), 0);
  }
}

void recorded(CUevent event, CUstream stream, const Calls& calls, bool captured) {
  const auto entry = find(event);
  if (!entry) return;
  CUevent mark = nullptr;
  bool marked = false;
  if (!captured) {
    const Aside aside;
    {
      const std::lock_guard guard(table().lock);
      mark = table().marks.take(entry->context);
    }
    // Outside of the lock: where much is queued the driver waits here, perhaps for what a peer has to be told of.
    marked = mark != nullptr && calls.record(mark, stream) == CUDA_SUCCESS;
    if (!marked) real::cuEventSynchronize(event);  // slower, and as right
  }
  const std::lock_guard guard(table().lock);
  Table& all = table();
  if (mark != nullptr && !marked) all.marks.give(entry->context, mark);
  const auto found = all.living.find(event);
  if (found == all.living.end()) return;
  found->second.captured = captured;
  if (captured) return;
  found->second.recorded = marked ? all.marks.enter(entry->context, mark) : all.marks.enter_done();
  found->second.word->store({::getpid(), found->second.recorded});
}

Latest::Latest(CUevent event) : event_(event) {
  const Aside aside;
  const std::lock_guard guard(table().lock);
  const auto found = table().living.find(event);
  if (found == table().living.end() || found->second.captured) return;
  const Entry& entry = found->second;
  const Recording latest = entry.word->latest();
  const bool here = latest.pid == ::getpid();
  if (here && latest.number == entry.recorded) return;
  CUevent stand_in = here ? table().marks.pin(latest.number) : nullptr;
  if (stand_in != nullptr) pinned_ = latest.number;
  if (stand_in == nullptr) stand_in = table().marks.blank(entry.context);
  if (stand_in != nullptr) event_ = stand_in;
  if (here || latest.number == 0) return;
  question_.emplace();
  question_->about = EventRequest::About::recording;
  question_->pid = latest.pid;
  question_->number = latest.number;
}

Latest::~Latest() {
  if (pinned_ == 0) return;
  const std::lock_guard guard(table().lock);
  table().marks.unpin(pinned_);
}

bool settled(CUevent event, const EventRequest& question) {
  if (!is_done(question)) return false;
  const std::lock_guard guard(table().lock);
  if (const auto found = table().living.find(event); found != table().living.end()) {
    found->second.settled = {question.pid, question.number};
  }
  return true;
}

CUresult await(CUevent event, const EventRequest& question, CUstream stream, const Calls& calls) {
  return settled(event, question) ? CUDA_SUCCESS : ask_in(stream, question, calls);
}

EventReply answer(const EventRequest& request, Descriptor& descriptor) {
  EventReply reply;
  const Aside aside;
  const std::lock_guard guard(table().lock);
  if (request.about == EventRequest::About::recording) {
    reply.known = 1;
    reply.done = table().marks.is_done(request.number) ? 1 : 0;
    return reply;
  }
  arena::SharedName own = arena::own_name();
  own.block = request.event.block;
  const auto found = table().places.find(own.block);
  if (request.event != own || found == table().places.end()) return reply;
  descriptor = event_table::descriptor();
  reply.known = 1;
  reply.place = found->second;
  return reply;
}

std::unique_lock<std::mutex> pause(CUcontext context) {
  if (owner.load() != ::getpid()) return {};
  contexts::synchronize(context);
  return std::unique_lock(table().lock);
}

void context_gone(CUcontext context) {
  if (owner.load() != ::getpid()) return;
  table().marks.forget(context);
  std::erase_if(table().living, [context](const auto& each) {
    if (each.second.context != context) return false;
    drop(each.second);
    return true;
  });
}

CUresult refuse(const char* symbol) {
  log::error("%s: an event that processes share by IPC handle cannot be part of a graph or of a green context under Torpor; "
             "`torpor run --no-arena` leaves such events to the driver", symbol);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace torpor::share::events
