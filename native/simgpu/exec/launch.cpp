#include "exec/launch.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

#include "exec/block.h"
#include "own_thread.h"

namespace sim::exec {
namespace {

void note(Grid& grid, std::mutex& mutex, Fault& first, Fault found) {
  std::lock_guard lock(mutex);
  if (!first) first = std::move(found);
  grid.stop = true;
}

bool cancelled(const Grid& grid) {
  return grid.stop.load(std::memory_order_relaxed) ||
         (grid.launch.cancel && grid.launch.cancel->load(std::memory_order_relaxed));
}

// Blocks one after the other, or, when they may wait for each other, all at once in turns.
void work(Grid& grid, uint64_t blocks) {
  Worker worker(grid);
  std::deque<std::unique_ptr<Block>> together;
  for (;;) {
    const uint64_t number = grid.next.fetch_add(1, std::memory_order_relaxed);
    if (number >= blocks) break;
    auto block = std::make_unique<Block>(worker, number);
    if (grid.launch.cooperative) {
      together.push_back(std::move(block));
      continue;
    }
    while (block->run())
      if (cancelled(grid)) throw Stop{{Fault::Kind::cancelled, "the launch was given up"}};
    if (cancelled(grid)) throw Stop{{Fault::Kind::cancelled, "the launch was given up"}};
  }
  while (!together.empty()) {
    if (cancelled(grid)) throw Stop{{Fault::Kind::cancelled, "the launch was given up"}};
    auto block = std::move(together.front());
    together.pop_front();
    if (block->run()) together.push_back(std::move(block));
  }
}

// Helper threads that have ended when this does.
class Helpers {
 public:
  ~Helpers() { join(); }
  void start(std::function<void()> body) {
    {
      std::lock_guard lock(state_->mutex);
      ++state_->running;
    }
    try {
      start_own_thread("torpor-grid", [state = state_, run = std::move(body)] {
        run();
        std::lock_guard lock(state->mutex);
        --state->running;
        state->ended.notify_all();
      });
    } catch (...) {  // no thread to be had: the others do the work
      std::lock_guard lock(state_->mutex);
      --state_->running;
    }
  }
  void join() {
    std::unique_lock lock(state_->mutex);
    state_->ended.wait(lock, [&] { return state_->running == 0; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable ended;
    unsigned running = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace

Fault run(const Image& image, const ptx::Kernel& kernel, const Launch& launch) {
  Grid grid{image, kernel, launch};
  grid.threads = launch.block[0] * launch.block[1] * launch.block[2];
  grid.shared_bytes = kernel.shared_bytes + launch.dynamic_shared;
  grid.stack_bytes = (kernel.local_bytes + 15) & ~15u;
  if (kernel.code->calls.size()) grid.stack_bytes += (launch.stack_bytes * 8 + 15) & ~15u;
  const uint64_t blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];

  std::mutex mutex;
  Fault first;
  const auto body = [&] {
    try {
      work(grid, blocks);
    } catch (Stop& stop) {
      note(grid, mutex, first, std::move(stop.fault));
    } catch (const std::bad_alloc&) {
      note(grid, mutex, first, {Fault::Kind::out_of_memory, "no memory for the blocks of kernel " + kernel.name});
    }
  };
  unsigned workers = launch.workers ? launch.workers : std::thread::hardware_concurrency();
  if (workers > blocks) workers = static_cast<unsigned>(blocks);
  {
    Helpers helpers;
    for (unsigned i = 1; i < workers; ++i) helpers.start(body);
    body();
  }
  return first;
}

}  // namespace sim::exec
