#include "kept_descriptor.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>

namespace torpor::arena {
namespace {

// All descriptors of device memory are the same file to fstat (/dev/nvidiactl), so those that are kept carry a mark: the
// signal and the owner for asynchronous input, which nobody switches on for them. It goes where the open file goes.
constexpr int kMark = 61;

constexpr std::uint32_t kSlots = 1024;
// Programs that live with fewer numbers may count on each of them.
constexpr rlim_t kSmallestLimit = 1024;
constexpr rlim_t kLowestNumber = 4096;

struct Slot {
  std::atomic<int> fd{-1};
  dev_t device = 0;
  ino_t inode = 0;
  std::uint64_t weight = 0;
  std::uint32_t turn = 0;
  bool for_good = false;
};

// Flat and constant, because a child forked at any moment walks over it.
constinit Slot slots[kSlots]{};
constinit std::mutex lock;

bool same_file(const Slot& slot, int fd) {
  struct stat found {};
  return ::fstat(fd, &found) == 0 && found.st_dev == slot.device && found.st_ino == slot.inode &&
         is_marked(fd);
}

void empty(Slot& slot) {
  const int fd = slot.fd.load(std::memory_order_relaxed);
  if (fd >= 0 && same_file(slot, fd)) ::close(fd);
  slot.fd.store(-1, std::memory_order_release);
  ++slot.turn;
}

void close_in_child() {
  for (Slot& slot : slots) {
    const int fd = slot.fd.load(std::memory_order_acquire);
    if (fd >= 0 && same_file(slot, fd)) ::close(fd);
    slot.fd.store(-1, std::memory_order_relaxed);
  }
}

// How many slots may be used under the program's present limit.
std::uint32_t room(rlim_t limit) {
  if (limit < kSmallestLimit) return 0;
  return static_cast<std::uint32_t>(std::min<rlim_t>(kSlots, limit / 4));
}

// A free slot, or that of the lightest descriptor if it weighs less than `weight`; null when all others matter more.
Slot* place_for(std::uint64_t weight, std::uint32_t room) {
  Slot* free = nullptr;
  Slot* lightest = nullptr;
  std::uint32_t used = 0;
  for (Slot& slot : slots) {
    if (slot.fd.load(std::memory_order_relaxed) < 0) {
      if (free == nullptr) free = &slot;
      continue;
    }
    ++used;
    if (!slot.for_good && (lightest == nullptr || slot.weight < lightest->weight)) lightest = &slot;
  }
  if (used < room) return free;
  if (lightest == nullptr || lightest->weight >= weight) return nullptr;
  empty(*lightest);
  return lightest;
}

}  // namespace

bool KeptDescriptor::keep(int fd, std::uint64_t weight, bool for_good) {
  reset();
  static const int forks = ::pthread_atfork(nullptr, nullptr, close_in_child);
  rlimit limit{};
  struct stat found {};
  if (forks != 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || ::fstat(fd, &found) != 0) return false;
  const std::lock_guard guard(lock);
  Slot* const slot = place_for(for_good ? UINT64_MAX : weight, room(limit.rlim_cur));
  if (slot == nullptr) return false;
  const auto lowest = static_cast<int>(std::min(kLowestNumber, limit.rlim_cur / 2));
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, lowest);
  if (high < 0) return false;
  if (::fcntl(high, F_SETSIG, kMark) != 0 || ::fcntl(high, F_SETOWN, ::getpid()) != 0) {
    ::close(high);
    return false;
  }
  slot->device = found.st_dev;
  slot->inode = found.st_ino;
  slot->weight = weight;
  slot->for_good = for_good;
  slot->fd.store(high, std::memory_order_release);
  slot_ = static_cast<std::uint32_t>(slot - slots);
  turn_ = slot->turn;
  return true;
}

bool KeptDescriptor::intact() const {
  if (slot_ == kNone) return false;
  const std::lock_guard guard(lock);
  const Slot& slot = slots[slot_];
  return slot.turn == turn_ && same_file(slot, slot.fd.load(std::memory_order_relaxed));
}

Descriptor KeptDescriptor::duplicate(bool low) const {
  if (!intact()) return {};
  const std::lock_guard guard(lock);
  const int fd = slots[slot_].fd.load(std::memory_order_relaxed);
  return Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, low ? 0 : fd));
}

void KeptDescriptor::reset() {
  if (slot_ == kNone) return;
  const std::lock_guard guard(lock);
  if (slots[slot_].turn == turn_) empty(slots[slot_]);
  slot_ = kNone;
}

bool is_marked(int fd) { return ::fcntl(fd, F_GETSIG) == kMark; }

bool is_kept(int fd) {
  const std::lock_guard guard(lock);
  return std::any_of(std::begin(slots), std::end(slots),
                     [fd](const Slot& slot) { return slot.fd.load(std::memory_order_relaxed) == fd; });
}

bool is_ours(int fd) { return is_marked(fd) && ::fcntl(fd, F_GETOWN) > 0; }

}  // namespace torpor::arena
