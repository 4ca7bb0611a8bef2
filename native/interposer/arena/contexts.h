// The contexts of this process: which one an allocation belongs to, and which ones a freeze has to wait for.
//
// Contexts that the program creates are entered by the overrides of cuCtxCreate*; primary contexts are entered when
// one is first seen as the current one. Each entry has an id of its own, because the driver may give the handle of a
// destroyed context to a new one. All functions are thread safe, change no thread's current context beyond their
// own duration, and call the real driver only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "../../abi/cuda_driver.h"

namespace torpor::contexts {

struct Context {
  CUcontext handle = nullptr;
  int device = 0;
  bool primary = false;
  std::uint64_t id = 0;
};

// The context that memory allocated by this thread belongs to. A context that is neither created by cuCtxCreate* nor
// primary is a green one, whose memory belongs to the device's primary context. Fails as the driver does when no
// context is current.
CUresult current(Context& out);

std::optional<Context> find(std::uint64_t id);
std::optional<Context> find(CUcontext handle);
// Any live context of the device.
std::optional<Context> on_device(int device);

// Enters the calling thread's current context, which cuCtxCreate* has just made.
void created(CUcontext handle);
// Takes a context out again, before or after its destruction; `restore` undoes it.
std::optional<Context> forget(CUcontext handle);
std::optional<Context> forget_primary(int device);
void restore(const Context& context);

// Ordinals of devices whose primary context is active.
bool primary_active(int device);

// Makes a context current for this object's lifetime. When `status` is an error nothing was pushed.
class Pushed {
 public:
  explicit Pushed(CUcontext context);
  ~Pushed();
  Pushed(const Pushed&) = delete;
  Pushed& operator=(const Pushed&) = delete;
  const CUresult status;
};

// Waits until all work of the context is done. Returns what cuCtxSynchronize returns.
CUresult synchronize(CUcontext context);

// The same, unless a stream is being captured, which it would spoil; a capture that begins meanwhile waits for it (ContextWait).
std::optional<CUresult> synchronize_unless_capturing(CUcontext context);

// A context that is held for as long as this object lives: a primary context is retained.
class Held {
 public:
  Held(CUcontext handle, int device, bool retained) : handle_(handle), device_(device), retained_(retained) {}
  Held(Held&& other) noexcept;
  Held& operator=(Held&&) = delete;
  ~Held();
  CUcontext handle() const { return handle_; }
  int device() const { return device_; }

 private:
  CUcontext handle_;
  int device_;
  bool retained_;
};

// Every context that can have work: the active primary ones and those that the program created.
std::vector<Held> all();

// True for the codes with which the driver answers a handle that is no context (any more).
bool is_gone(CUresult result);

}  // namespace torpor::contexts
