#include "stream.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "context.h"
#include "device.h"
#include "own_thread.h"

namespace sim {

namespace {

// The time in which at least one stream of a device is at work.
struct Busy {
  int running = 0;
  Clock::time_point since;
  Clock::duration total{};

  void begin() {
    if (running++ == 0) since = Clock::now();
  }
  void end() {
    if (--running == 0) total += Clock::now() - since;
  }
  Clock::duration so_far() const { return running != 0 ? total + (Clock::now() - since) : total; }
};

// One lock and one condition for all streams: work is large compared to their cost, and dependencies cross streams.
struct Timeline {
  std::mutex mutex;
  std::condition_variable progress;
  uint64_t generation = 0;  // grows whenever any stream has moved on
  std::map<int, Busy> busy;  // by device

  void moved() {
    ++generation;
    progress.notify_all();
  }
};

Timeline& timeline() {
  static Timeline* instance = new Timeline;  // never destroyed: threads may outlive static destruction
  return *instance;
}

uint64_t next_stream_id() {
  static std::atomic<uint64_t> next{3};  // 1 and 2 are the handles of the default streams
  return next++;
}

using Lock = std::unique_lock<std::mutex>;

}  // namespace

std::chrono::nanoseconds busy_time(int ordinal) {
  Lock lock(timeline().mutex);
  return timeline().busy[ordinal].so_far();
}

bool Ticket::done() const {
  if (!stream) return true;
  Lock lock(timeline().mutex);
  return stream->completed_ >= sequence;
}

void Ticket::wait() const {
  if (!stream) return;
  Lock lock(timeline().mutex);
  timeline().progress.wait(lock, [&] { return stream->completed_ >= sequence; });
}

bool Ticket::wait_until(Clock::time_point deadline) const {
  if (!stream) return true;
  Lock lock(timeline().mutex);
  return timeline().progress.wait_until(lock, deadline, [&] { return stream->completed_ >= sequence; });
}

void wait_all(const std::vector<Ticket>& tickets) {
  for (const Ticket& ticket : tickets) ticket.wait();
}

bool wait_all_until(const std::vector<Ticket>& tickets, Clock::time_point deadline) {
  return std::all_of(tickets.begin(), tickets.end(), [&](const Ticket& t) { return t.wait_until(deadline); });
}

void wait_for_progress(const std::function<bool()>& met) {
  for (;;) {
    Lock lock(timeline().mutex);
    uint64_t seen = timeline().generation;
    lock.unlock();
    if (met()) return;
    lock.lock();
    timeline().progress.wait(lock, [&] { return timeline().generation != seen; });
  }
}

Stream::Stream(Context* owner, std::shared_ptr<Health> state, unsigned stream_flags, int stream_priority)
    : context(owner), flags(stream_flags), priority(stream_priority), id(next_stream_id()), ordinal(owner->device.ordinal), health(std::move(state)) {}

bool Stream::can_start(const Work& work) const {
  if (running_) return false;
  return std::all_of(work.after.begin(), work.after.end(), [](const Ticket& ticket) {
    return !ticket.stream || ticket.stream->completed_ >= ticket.sequence;
  });
}

uint64_t Stream::append(Work work) {
  if (!threaded_) {
    start_own_thread("torpor-stream", [self = shared_from_this()] { self->thread_body(); });
    threaded_ = true;
  }
  queue_.push_back(std::move(work));
  uint64_t sequence = ++submitted_;
  timeline().moved();
  return sequence;
}

Ticket Stream::submit(Work work) {
  Lock lock(timeline().mutex);
  if (work.instant && queue_.empty() && can_start(work)) {
    work.run(*this);
    completed_ = ++submitted_;
    timeline().moved();
    return {shared_from_this(), completed_};
  }
  uint64_t sequence = append(std::move(work));
  return {shared_from_this(), sequence};
}

Begun Stream::begin(Work work) {
  Lock lock(timeline().mutex);
  bool here = queue_.empty() && can_start(work);
  if (!here) {
    uint64_t sequence = append(std::move(work));
    return {shared_from_this(), {}, sequence, false};
  }
  running_ = true;
  timeline().busy[ordinal].begin();
  return {shared_from_this(), std::move(work), ++submitted_, true};
}

void Begun::finish() {
  if (here) work.run(*stream);
  work = {};  // lets go of what the work held before anyone is told that it is done
  Lock lock(timeline().mutex);
  if (here) {
    stream->running_ = false;
    timeline().busy[stream->ordinal].end();
    ++stream->completed_;
    timeline().moved();
  } else {
    timeline().progress.wait(lock, [&] { return stream->completed_ >= sequence; });
  }
}

Ticket Stream::last() {
  Lock lock(timeline().mutex);
  return {shared_from_this(), submitted_};
}

bool Stream::idle() {
  Lock lock(timeline().mutex);
  return completed_ == submitted_;
}

void Stream::close(bool give_up_waits) {
  Lock lock(timeline().mutex);
  closing_ = true;
  if (give_up_waits) give_up_ = true;
  timeline().moved();
}

void Stream::thread_body() {
  Lock lock(timeline().mutex);
  for (;;) {
    timeline().progress.wait(lock, [&] { return queue_.empty() ? closing_ : can_start(queue_.front()); });
    if (queue_.empty()) return;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    timeline().busy[ordinal].begin();
    lock.unlock();
    work.run(*this);
    work = {};
    lock.lock();
    running_ = false;
    timeline().busy[ordinal].end();
    ++completed_;
    timeline().moved();
  }
}

}  // namespace sim
