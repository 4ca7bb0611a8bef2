// Streams: each runs its work in order, on a thread of its own that starts with the first work it needs one for.
//
// Work never throws and never waits for a later ticket, so progress is certain unless a wait on memory is not met.
// Nobody may hold the process lock while waiting for a ticket: work may need that lock to finish.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "health.h"

namespace sim {

class Stream;
class Context;
struct Capture;
struct Node;
using Clock = std::chrono::steady_clock;

// A point in a stream: everything submitted up to and including one piece of work. An empty ticket is done.
struct Ticket {
  std::shared_ptr<Stream> stream;
  uint64_t sequence = 0;

  bool done() const;
  void wait() const;
  bool wait_until(Clock::time_point deadline) const;  // false when the deadline passed first
};

void wait_all(const std::vector<Ticket>& tickets);
// How long a device has had work running, in any stream of this process, since the process began.
std::chrono::nanoseconds busy_time(int ordinal);
// False when `deadline` passed first.
bool wait_all_until(const std::vector<Ticket>& tickets, Clock::time_point deadline);
// Waits until `met`, which is asked, with no lock held, at the start and whenever some stream has finished work.
void wait_for_progress(const std::function<bool()>& met);

struct Work {
  std::function<void(Stream&)> run;
  std::vector<Ticket> after;   // other streams' work that must be done before
  bool instant = false;        // takes no time and calls nothing: may run at submission, under the stream lock
};

// Work that the calling thread has put into a stream and will wait for. `finish` must be called, once, with no lock
// held: when the stream was idle the work runs in there.
struct Begun {
  std::shared_ptr<Stream> stream;
  Work work;
  uint64_t sequence = 0;
  bool here = false;

  void finish();
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Context* context, std::shared_ptr<Health> health, unsigned flags, int priority);

  // Appends work and returns at once.
  Ticket submit(Work work);
  // Appends work that the caller waits for by `finish`. From here on the stream is busy with it.
  Begun begin(Work work);

  Ticket last();  // everything submitted so far
  bool idle();

  // No more work will come. Waits on memory give up; what is queued still runs, then the thread ends.
  void close(bool give_up_waits);
  bool given_up() const { return give_up_.load(std::memory_order_relaxed); }
  const std::atomic<bool>& giving_up() const { return give_up_; }

  Context* const context;
  const unsigned flags;  // CU_STREAM_NON_BLOCKING or 0
  const int priority;
  const uint64_t id;
  const int ordinal;  // of the context's device
  const std::shared_ptr<Health> health;  // the context's

  // While the stream is captured: what its next node has to follow. Guarded by the process lock.
  std::shared_ptr<Capture> capture;
  std::vector<Node*> frontier;
  std::map<int, CUlaunchAttributeValue> attributes;  // as set; guarded by the process lock

 private:
  friend struct Ticket;
  friend struct Begun;
  bool can_start(const Work& work) const;
  uint64_t append(Work work);
  void thread_body();

  std::deque<Work> queue_;
  uint64_t submitted_ = 0, completed_ = 0;
  bool running_ = false, threaded_ = false, closing_ = false;
  std::atomic<bool> give_up_ = false;
};

}  // namespace sim
