// Contexts: a device's streams and limits under one handle, primary or made by the program.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "abi.h"
#include "stream.h"

namespace sim {

struct Device;
class PrintBuffer;

// Which stream the handle 0 means: the entry point decides (`_ptds` and `_ptsz` names mean the thread's own).
enum class DefaultStream { legacy, per_thread };

// Guarded by the process lock.
class Context {
 public:
  Context(Device& device, unsigned flags, unsigned api_version, bool primary);

  CUcontext handle() { return reinterpret_cast<CUcontext>(this); }

  // The stream that a handle names here; throws CUDA_ERROR_INVALID_HANDLE or CUDA_ERROR_INVALID_CONTEXT.
  std::shared_ptr<Stream> stream(CUstream handle, DefaultStream zero);
  std::shared_ptr<Stream> make_stream(unsigned flags, int priority);
  // The handle is gone; what was submitted still counts until it is done.
  void retire_stream(const std::shared_ptr<Stream>& stream);

  // What work in `stream` has to wait for by the rules of the legacy default stream.
  std::vector<Ticket> implied_order(Stream& stream);
  std::vector<Ticket> everything();
  bool is_legacy(const Stream& stream) const { return &stream == legacy_.get(); }
  std::vector<std::shared_ptr<Stream>> streams() const;

  // Ends every stream; waits on memory give up. The context is then `destroyed` until revived (primary ones are).
  void end();
  void revive();

  Device& device;
  unsigned flags;
  const unsigned api_version;
  const bool primary;
  const uint64_t id;
  bool destroyed = false;
  std::map<int, size_t> limits;        // CUlimit
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;
  CUsharedconfig shared_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  std::set<Context*> peers;            // contexts whose memory this one may access
  std::shared_ptr<Health> health;
  std::shared_ptr<PrintBuffer> prints;

 private:
  std::shared_ptr<Stream> legacy_;
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread_;
  std::set<std::shared_ptr<Stream>> streams_;  // every live stream but the legacy one
  std::vector<Ticket> retired_;                // of destroyed streams
};

// The end of a context and of everything that dies with it: streams, events, memory. Work under way keeps what it
// touches until it is done, and is returned: the caller waits for it without the lock. Under the process lock.
std::vector<Ticket> end_context(Context& context);

// The calling thread's stack of contexts; the last is current.
std::vector<std::shared_ptr<Context>>& context_stack();

// The calling thread's current context; throws CUDA_ERROR_INVALID_CONTEXT or CUDA_ERROR_CONTEXT_IS_DESTROYED.
std::shared_ptr<Context> current_even_if_broken();
// The same for what cannot be done in a broken context: throws what broke it.
std::shared_ptr<Context> current_context();

}  // namespace sim
