// What processes of a job say to each other about what they share, and what an IPC handle of ours holds.
//
// A peer connects to `$TORPOR_JOB_DIR/ctl/<pid>.peer` (SOCK_SEQPACKET, same user only), sends a Request and gets a Reply, or
// sends an EventRequest and gets an EventReply; where there is something to open a descriptor comes along. A process serves
// it from its first handle on.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "../../abi/cuda_driver.h"
#include "../arena/arena.h"

namespace torpor::share {

inline constexpr std::uint64_t kMagic = 0x31435049'52505254;  // "TRPRIPC1"

struct Handle {
  std::uint64_t magic = kMagic;
  arena::SharedPart part;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));

struct Request {
  std::uint64_t magic = kMagic;
  arena::SharedName block;
};

struct Reply {
  std::uint64_t size = 0;  // of the block; zero when there is none, and then no descriptor comes
  CUuuid device{};
};

inline constexpr std::uint64_t kEventMagic = 0x32545645'50525254;  // "TRPREVT2"

// An event between processes; `block` of its name is a number that its process gave it and gives no other.
struct EventHandle {
  std::uint64_t magic = kEventMagic;
  arena::SharedName event;
};
static_assert(sizeof(EventHandle) <= sizeof(CUipcEventHandle));

struct EventRequest {
  enum class About : std::uint64_t {
    opening,    // where the word of `event` is (event_table.h), and the memory that has it
    recording,  // whether recording `number` of the process is done
  };
  std::uint64_t magic = kEventMagic;
  About about = About::opening;
  arena::SharedName event;
  std::int64_t pid = 0;  // who is asked
  std::uint64_t number = 0;
};

struct EventReply {
  std::uint64_t known = 0;  // 0: there is no such event, or no such process any more
  std::uint64_t place = 0;  // in the table; a descriptor of it comes along
  std::uint64_t done = 0;
};

template <typename Opaque>
bool starts_with(const Opaque& handle, std::uint64_t expected) {
  std::uint64_t magic = 0;
  std::memcpy(&magic, &handle, sizeof magic);
  return magic == expected;
}

inline bool is_ours(const CUipcMemHandle& handle) { return starts_with(handle, kMagic); }
inline bool is_ours(const CUipcEventHandle& handle) { return starts_with(handle, kEventMagic); }

// The path of a process's socket; empty outside of a job.
std::string socket_of(std::int64_t pid);

}  // namespace torpor::share
