// Stream-ordered memory (cuMemAllocAsync and pools) in blocks of the arena, so that a checkpoint moves it as fast as the rest.
//
// A pool of the driver's stands behind each of ours and stays empty: its handle, its settings and its answers are the
// program's. Ours are the default pools and those that are made for one device's memory and are not shared. Callers hold
// a gate::Scope. Thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "../../abi/cuda_driver.h"
#include "contexts.h"

namespace torpor::arena {

struct Allocation;

namespace pools {

struct Pool;

// Memory for the stream from the pool, or from its device's current one where none is given. Nothing where the driver must
// answer: pools that are not ours, what is done while a capture goes on, streams that it does not know.
std::optional<CUresult> allocate(std::uint64_t size, CUmemoryPool pool, CUstream stream, bool per_thread_default,
                                 CUdeviceptr& out);
// Frees what allocate() gave once the stream gets there. CUDA_ERROR_NOT_SUPPORTED when that cannot be told of the stream: it has
// to be waited for.
CUresult free(const Allocation& allocation, CUstream stream, bool per_thread_default);
// The memory of an allocation that nobody uses any more, which the arena has forgotten.
void returned(const Allocation& allocation);

// As cuMemFree, of what allocate() gave: waits for nothing. False when it has to be waited for.
bool free_at_once(const Allocation& allocation, CUresult& result);

// The program has made a pool.
void created(CUmemoryPool pool, const CUmemPoolProps& properties);

// Around the driver's end of a pool. Ours goes first: once the driver has destroyed it the handle may be another pool's.
class Destruction {
 public:
  explicit Destruction(CUmemoryPool handle);
  // To be called with what the driver says, which it returns: an error brings the pool back.
  CUresult ended(CUresult result);

 private:
  CUmemoryPool handle_;
  std::shared_ptr<Pool> pool_;
};

// The program changes a setting of a pool (after the driver has), or asks for an amount (`value` holds the driver's).
void set(CUmemoryPool pool, CUmemPool_attribute attribute, const void* value);
void amend(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
// Gives back what is free beyond `keep` bytes.
void trim(CUmemoryPool pool, std::uint64_t keep);
// Opens the pool's memory to a further device.
CUresult open_to(CUmemoryPool pool, int device);

// Before the end of a stream (not of a default one), and of a context's work.
void stream_ends(CUstream stream);
void context_ends(CUcontext context);

// Gives back everything free, for an allocation that found no memory; whether there was any. Waits for all contexts that have
// freed something.
bool release_free();
// With nothing under way in any stream: what is free is free for everybody, and goes beyond the pools' thresholds.
void settle();

// What is held beyond the pools' thresholds and is known not to be in use goes back.
void give_back_surplus();

namespace detail {
extern std::atomic<bool> surplus;
void after_wait_slowly();
}  // namespace detail

// After the program has waited for the GPU, outside of the gate: pools give back what they hold beyond their thresholds, as the
// driver's do. One load when there is nothing.
inline void after_wait() {
  if (detail::surplus.load(std::memory_order_relaxed)) [[unlikely]] detail::after_wait_slowly();
}

}  // namespace pools
}  // namespace torpor::arena
