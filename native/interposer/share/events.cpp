#include "events.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>

#include "../arena/arena.h"
#include "../arena/contexts.h"
#include "../generated/real.h"
#include "../hooks/aside.h"
#include "../prim/log.h"
#include "../prim/thread.h"
#include "../vm/forget.h"
#include "client.h"
#include "server.h"

namespace torpor::share::events {
namespace {

constexpr unsigned kFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

struct Recording {
  std::uint64_t number;
  CUevent mark;
};

struct Entry {
  arena::SharedName name;    // ours
  arena::SharedName origin;  // whose handle it is; ours where it was made here
  arena::SharedName latest;  // at the origin: who recorded it last
  CUcontext context = nullptr;
  std::uint64_t recorded = 0;
  std::vector<Recording> under_way;
  std::vector<CUevent> spare;
  bool destroyed = false;
};

struct Table {
  std::mutex lock;
  std::unordered_map<CUevent, std::shared_ptr<Entry>> living;
  std::unordered_map<std::uint64_t, std::shared_ptr<Entry>> by_number;  // and those that peers may still ask about
  std::uint64_t next = 1;
};

Table& table() {
  static auto* const instance = new Table;
  return *instance;
}

// The process that has events here; a forked child has none.
constinit std::atomic<pid_t> owner{0};

std::shared_ptr<Entry> find(CUevent event) {
  const std::lock_guard guard(table().lock);
  const auto found = table().living.find(event);
  return found != table().living.end() ? found->second : nullptr;
}

std::shared_ptr<Entry> add(CUevent event, CUcontext context, const arena::SharedName* origin) {
  auto entry = std::make_shared<Entry>();
  Table& all = table();
  {
    const std::lock_guard guard(all.lock);
    entry->name = arena::own_name();
    entry->name.block = all.next++;
    entry->origin = origin != nullptr ? *origin : entry->name;
    entry->latest = entry->name;
    entry->context = context;
    all.living.insert_or_assign(event, entry);
    all.by_number.emplace(entry->name.block, entry);
  }
  owner.store(::getpid());
  if (!vm::events_are_shared()) vm::share_event();
  return entry;
}

// With the lock held. Marks whose recording is done can be used again.
void tidy(Entry& entry) {
  const auto done = std::ranges::partition(entry.under_way, [](const Recording& each) {
    return real::cuEventQuery(each.mark) == CUDA_ERROR_NOT_READY;
  });
  for (const Recording& each : done) entry.spare.push_back(each.mark);
  entry.under_way.erase(done.begin(), done.end());
}

// With the lock held.
bool is_done(const Entry& entry, std::uint64_t number) {
  const auto found = std::ranges::find(entry.under_way, number, &Recording::number);
  return found == entry.under_way.end() || real::cuEventQuery(found->mark) != CUDA_ERROR_NOT_READY;
}

CUevent take_mark(Entry& entry) {
  {
    const std::lock_guard guard(table().lock);
    tidy(entry);
    if (!entry.spare.empty()) {
      const CUevent mark = entry.spare.back();
      entry.spare.pop_back();
      return mark;
    }
  }
  CUevent mark = nullptr;
  const contexts::Pushed pushed(entry.context);
  if (pushed.status == CUDA_SUCCESS) real::cuEventCreate(&mark, CU_EVENT_DISABLE_TIMING);
  return mark;
}

// With the lock held: destroyed events go when nothing of theirs is under way any more.
void bury() {
  std::erase_if(table().by_number, [](const auto& each) {
    Entry& entry = *each.second;
    if (!entry.destroyed) return false;
    tidy(entry);
    for (const CUevent mark : entry.spare) real::cuEventDestroy_v2(mark);
    entry.spare.clear();
    return entry.under_way.empty();
  });
}

// Runs in a stream, as a host function.
void ask_until_done(void* data) {
  const std::unique_ptr<EventRequest> question(static_cast<EventRequest*>(data));
  for (long pause = 20; !settled(*question); pause = std::min(2 * pause, 1000L)) thread::sleep_microseconds(pause);
}

}  // namespace

const Calls kLegacy{real::cuEventRecord, real::cuStreamIsCapturing, real::cuLaunchHostFunc};
const Calls kPerThread{real::cuEventRecord_ptsz, real::cuStreamIsCapturing_ptsz, real::cuLaunchHostFunc_ptsz};

bool contains(CUevent event) {
  const pid_t process = owner.load(std::memory_order_relaxed);
  return process != 0 && process == ::getpid() && find(event) != nullptr;
}

std::optional<CUresult> create(CUevent* out, unsigned flags) {
  const bool shareable = (flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) != 0;
  if (!shareable || (flags & ~kFlags) != 0 || out == nullptr || arena::Arena::get() == nullptr) return std::nullopt;
  CUcontext context = nullptr;
  if (real::cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr || !serve()) return std::nullopt;
  const CUresult result = real::cuEventCreate(out, flags & ~static_cast<unsigned>(CU_EVENT_INTERPROCESS));
  if (result == CUDA_SUCCESS) add(*out, context, nullptr);
  return result;
}

CUresult give_handle(CUipcEventHandle* out, CUevent event) {
  const auto entry = find(event);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The driver gives no handle of an event that came by one.
  if (entry == nullptr || entry->origin != entry->name) return CUDA_ERROR_INVALID_HANDLE;
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
  const auto reply = ask(question);
  if (!reply) return CUDA_ERROR_OPERATING_SYSTEM;
  if (reply->known == 0) return CUDA_ERROR_INVALID_HANDLE;
  CUcontext current = nullptr;
  real::cuCtxGetCurrent(&current);
  const CUresult result = real::cuEventCreate(out, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) add(*out, current, &handle.event);
  return result;
}

void forget(CUevent event) {
  if (!contains(event)) return;
  const Aside aside;
  const std::lock_guard guard(table().lock);
  if (const auto found = table().living.extract(event)) found.mapped()->destroyed = true;
  bury();
}

void recorded(CUevent event, CUstream stream, const Calls& calls) {
  const auto entry = find(event);
  if (entry == nullptr) return;
  {
    const Aside aside;
    const CUevent mark = take_mark(*entry);
    const bool marked = mark != nullptr && calls.record(mark, stream) == CUDA_SUCCESS;
    if (!marked) real::cuEventSynchronize(event);  // slower, and as right
    const std::lock_guard guard(table().lock);
    ++entry->recorded;
    if (marked) entry->under_way.push_back({entry->recorded, mark});
    if (!marked && mark != nullptr) entry->spare.push_back(mark);
    entry->latest = entry->name;
  }
  if (entry->origin == entry->name) return;
  EventRequest news;
  news.event = entry->origin;
  news.about = EventRequest::About::recorded;
  news.by = entry->name;
  while (!ask(news)) thread::sleep_microseconds(1000);
}

bool settled(EventRequest& question) {
  const auto reply = ask(question);
  if (!reply) return false;
  if (reply->known == 0 || reply->done != 0) return true;
  if (question.about == EventRequest::About::latest && reply->latest != question.event) {
    arena::SharedName own = arena::own_name();
    own.block = reply->latest.block;
    if (reply->latest == own) return true;  // the driver's own event says it
    question.event = reply->latest;
    question.about = EventRequest::About::recording;
    return settled(question);
  }
  question.about = EventRequest::About::recording;
  question.number = reply->number;
  return false;
}

std::optional<EventRequest> awaited(CUevent event) {
  const auto entry = find(event);
  if (entry == nullptr) return std::nullopt;
  EventRequest question;
  {
    const std::lock_guard guard(table().lock);
    const bool made_here = entry->origin == entry->name;
    if (made_here && entry->latest == entry->name) return std::nullopt;
    question.event = made_here ? entry->latest : entry->origin;
    question.about = made_here ? EventRequest::About::recording : EventRequest::About::latest;
  }
  return settled(question) ? std::nullopt : std::optional(question);
}

CUresult await(CUevent event, CUstream stream, const Calls& calls) {
  const auto question = awaited(event);
  if (!question) return CUDA_SUCCESS;
  auto kept = std::make_unique<EventRequest>(*question);
  const CUresult result = calls.launch_host(stream, ask_until_done, kept.get());
  if (result == CUDA_SUCCESS) static_cast<void>(kept.release());
  return result;
}

EventReply answer(const EventRequest& request) {
  EventReply reply;
  arena::SharedName own = arena::own_name();
  own.block = request.event.block;
  if (request.event != own) return reply;
  const Aside aside;
  const std::lock_guard guard(table().lock);
  const auto found = table().by_number.find(own.block);
  if (found == table().by_number.end()) return reply;
  Entry& entry = *found->second;
  reply.known = 1;
  if (request.about == EventRequest::About::recorded) entry.latest = request.by;
  reply.latest = entry.latest;
  if (request.about == EventRequest::About::latest && entry.latest != entry.name) return reply;
  reply.number = request.number != 0 ? request.number : entry.recorded;
  reply.done = is_done(entry, reply.number) ? 1 : 0;
  return reply;
}

std::unique_lock<std::mutex> pause(CUcontext context) {
  if (owner.load() != ::getpid()) return {};
  contexts::synchronize(context);
  return std::unique_lock(table().lock);
}

void context_gone(CUcontext context) {
  if (owner.load() != ::getpid()) return;
  for (const auto& [number, entry] : table().by_number) {
    if (entry->context != context) continue;
    entry->under_way.clear();
    entry->spare.clear();
    entry->destroyed = true;
  }
  std::erase_if(table().living, [context](const auto& each) { return each.second->context == context; });
}

CUresult refuse(const char* symbol) {
  log::error("%s: an event that processes share by IPC handle cannot be part of a graph or of a green context under Torpor; "
             "`torpor run --no-arena` leaves such events to the driver", symbol);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace torpor::share::events
