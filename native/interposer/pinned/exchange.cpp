#include "exchange.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "../arena/descriptor.h"
#include "../control/thread.h"
#include "../prim/log.h"
#include "../prim/thread.h"
#include "place.h"
#include "slices.h"
#include "waiting.h"

namespace torpor::pinned {
namespace {

constexpr unsigned kThreads = 8;
constexpr int kMoved = MREMAP_MAYMOVE | MREMAP_FIXED;
constexpr int kMovedEmpty = kMoved | 4;  // MREMAP_DONTUNMAP: the mapping stays, without its pages

// Whether no thread of this process can be made to wait: then none is asked again.
constinit std::atomic<bool> impossible{false};

// Gives the calling thread a table of open files of its own, with none in it.
bool has_own_files() {
  constexpr long kCloseRange = 436;
  constexpr unsigned kUnshare = 1U << 1;
  return ::syscall(kCloseRange, 0U, UINT_MAX, kUnshare) == 0;
}

// What a thread has open, in a table of its own. The program sees none of it, and cannot close it with its own files,
// which would let those go that wait.
class Desk {
 public:
  // `file` is a path, or empty.
  Desk(Waiting::Of kind, const char* file) {
    if (!has_own_files()) return;
    if (*file != '\0') file_.reset(::open(file, O_RDWR | O_CLOEXEC));
    pages_.reset(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    if (pages_ && (file_ || *file == '\0')) waiting_.emplace(kind);
  }
  explicit operator bool() const { return waiting_ && *waiting_; }
  const Waiting& waiting() const { return *waiting_; }
  int pages() const { return pages_.get(); }
  int file() const { return file_.get(); }

 private:
  std::optional<Waiting> waiting_;
  Descriptor file_, pages_;
};

class Exchange {
 public:
  // `file` is what the threads need; it is closed here once they have it.
  Exchange(const Spans& spans, Waiting::Of kind, Descriptor file)
      : slices_(spans), kind_(kind), file_(std::move(file)) {
    if (!file_) return;
    std::snprintf(path_.data(), path_.size(), "/proc/self/task/%d/fd/%d", thread::id(), file_.get());
  }
  virtual ~Exchange() = default;
  // In several threads; false when a slice failed, and then perhaps others were not tried.
  bool run();

 protected:
  virtual bool change(const Span& slice, const Desk& desk) = 0;
  Slices slices_;

 private:
  static void enter();
  void work();

  Waiting::Of kind_;
  Descriptor file_;
  std::array<char, 64> path_{};
  std::atomic<std::uint32_t> unsettled_{0}, started_{0}, busy_{0};
};

// Of the only one that is under way.
constinit std::atomic<Exchange*> current{nullptr};

void wait_for(std::atomic<std::uint32_t>& threads) {
  for (std::uint32_t left; (left = threads) != 0;) thread::wait_while(threads, left);
}

void count_down(std::atomic<std::uint32_t>& threads) {
  if (--threads == 0) thread::wake_all(threads);
}

void Exchange::work() {
  const Desk desk(kind_, path_.data());
  if (!desk) {
    impossible = true;
    slices_.fail();
  }
  count_down(unsettled_);
  while (started_ == 0) thread::wait_while(started_, 0);
  for (Span slice; slices_.next(slice);) {
    if (!change(slice, desk)) slices_.fail();
  }
}

void Exchange::enter() {
  Exchange* const mine = current.load(std::memory_order_acquire);
  mine->work();
  count_down(mine->busy_);  // the last that is done to it: it may be gone, but the kernel wakes nobody there
}

bool Exchange::run() {
  const std::uint64_t most = std::min<std::uint64_t>({kThreads, thread::processors(), slices_.size() / kSlice + 1});
  current.store(this, std::memory_order_release);
  // None begins before all are there: to start one takes the allocator's locks, which a thread that waits by then may
  // hold.
  for (std::uint64_t i = 0; i < most; ++i) {
    ++unsettled_;
    ++busy_;
    if (control::start_thread("torpor-pinned", enter)) continue;
    --unsettled_;
    --busy_;
    if (i == 0) slices_.fail();
    break;
  }
  wait_for(unsettled_);
  file_.reset();
  started_ = 1;
  thread::wake_all(started_);
  wait_for(busy_);
  return !slices_.failed();
}

[[noreturn]] void give_up() {
  log::error("memory of the program cannot be mapped again where it was");
  std::abort();
}

// False where the process has nearly as many mappings as it may: then all is as before. Linux 6.18 was seen
// to find no room, where others map meanwhile, when nothing is mapped there any more: then it is tried again.
bool put(void* from, const Span& slice) {
  constexpr unsigned kTries = 100'000;
  constexpr long kPauseUs = 100;
  for (unsigned tries = 0; tries < kTries; ++tries) {
    if (::mremap(from, slice.size(), slice.size(), kMoved, slice.at()) != MAP_FAILED) return true;
    if (::msync(slice.at(), slice.size(), MS_ASYNC) == 0 || errno != ENOMEM) return false;
    thread::sleep_microseconds(kPauseUs);
  }
  give_up();
}

class IntoFile : public Exchange {
 public:
  IntoFile(const Spans& spans, std::uint64_t start, Descriptor file)
      : Exchange(spans, Waiting::Of::anonymous, std::move(file)), start_(start) {}

 protected:
  bool change(const Span& slice, const Desk& desk) override {
    const auto offset = static_cast<off_t>(offset_in_file(start_, slice.start));
    // All of its memory now, as whoever touches a page that there is no room for is killed.
    if (::fallocate(desk.file(), 0, offset, static_cast<off_t>(slice.size())) != 0) return false;
    void* const aside = reserve(slice.size(), slice.start % kHugePage);
    if (aside == nullptr) return false;
    const bool waits = desk.waiting().begin(slice);
    if (!waits || ::mremap(slice.at(), slice.size(), slice.size(), kMovedEmpty, aside) == MAP_FAILED) {
      if (waits) desk.waiting().end(slice);
      ::munmap(aside, slice.size());
      return false;
    }
    constexpr int kAccess = PROT_READ | PROT_WRITE, kKind = MAP_SHARED | MAP_FIXED;
    const bool done = write(static_cast<char*>(aside), slice.size(), offset, desk) &&
                      ::mmap(slice.at(), slice.size(), kAccess, kKind, desk.file(), offset) != MAP_FAILED;
    if (!done && !put(aside, slice)) {
      if (!desk.waiting().fill(slice, aside)) give_up();  // page by page, which takes no mapping
      desk.waiting().end(slice);
      ::munmap(aside, slice.size());
      return false;
    }
    desk.waiting().wake(slice);
    if (done) ::munmap(aside, slice.size());  // else it is a hole, which others may have taken
    return done;
  }

 private:
  // Pages that were never touched are left out.
  static bool write(const char* memory, std::uint64_t size, off_t offset, const Desk& desk) {
    constexpr std::uint64_t kPresent = 3ULL << 62;  // or swapped out
    // Few at a time: a program's thread-local variables may take most of a thread's stack.
    std::uint64_t entries[512];
    for (std::uint64_t done = 0; done < size;) {
      const std::uint64_t count = std::min<std::uint64_t>(std::size(entries), (size - done) / kPage);
      const auto first = static_cast<off_t>(reinterpret_cast<std::uint64_t>(memory + done) / kPage * sizeof *entries);
      const auto wanted = static_cast<ssize_t>(count * sizeof *entries);
      if (::pread(desk.pages(), entries, static_cast<std::size_t>(wanted), first) != wanted) return false;
      for (std::uint64_t at = 0, end; at < count; at = end) {
        const bool present = (entries[at] & kPresent) != 0;
        for (end = at + 1; end < count && ((entries[end] & kPresent) != 0) == present;) ++end;
        const std::uint64_t from = done + at * kPage, length = (end - at) * kPage;
        if (!present) continue;
        if (!write_all(desk.file(), memory + from, length, offset + static_cast<off_t>(from))) return false;
      }
      done += count * kPage;
    }
    return true;
  }

  static bool write_all(int file, const char* from, std::uint64_t size, off_t offset) {
    for (std::uint64_t done = 0; done < size;) {
      const ssize_t put = ::pwrite(file, from + done, size - done, offset + static_cast<off_t>(done));
      if (put <= 0) return false;
      done += static_cast<std::uint64_t>(put);
    }
    return true;
  }

  std::uint64_t start_;
};

// Into new memory; pages of zeros stay untouched.
void copy(char* to, const char* from, std::uint64_t size) {
  static constexpr char kZeros[kPage] = {};
  for (std::uint64_t at = 0; at < size; at += kPage) {
    if (std::memcmp(from + at, kZeros, kPage) != 0) std::memcpy(to + at, from + at, kPage);
  }
}

// One mapping for all of it, so that its slices are one again when they are in their places.
char* fresh(std::uint64_t size, std::uint64_t within_huge_page, Pages advice) {
  auto* const memory = static_cast<char*>(reserve(size, within_huge_page));
  if (memory == nullptr) return nullptr;
  if (::mmap(memory, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
    ::munmap(memory, size);
    return nullptr;
  }
  if (advice != Pages::usual) ::madvise(memory, size, advice == Pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return memory;
}

class OutOfFile : public Exchange {
 public:
  // `fresh` is memory for all from `start` on, of which the spans' part is taken over.
  OutOfFile(const Spans& spans, std::uint64_t start, char* fresh)
      : Exchange(spans, Waiting::Of::file, Descriptor()), start_(start), fresh_(fresh) {}

  // To be called at the end. What was moved left holes, which other threads may have taken by now.
  void drop_rest() {
    for (Span slice; slices_.left(slice);) drop(slice);
  }

 protected:
  bool change(const Span& slice, const Desk& desk) override {
    if (moved(slice, desk)) return true;
    drop(slice);
    return false;
  }

 private:
  bool moved(const Span& slice, const Desk& desk) {
    const std::uint64_t size = slice.size();
    void* const twin = ::mremap(slice.at(), 0, size, MREMAP_MAYMOVE);  // another mapping of the same
    if (twin == MAP_FAILED) return false;
    const bool waits = desk.waiting().begin(slice);
    bool done = waits && ::madvise(slice.at(), size, MADV_DONTNEED) == 0;
    if (done) {
      copy(fresh_of(slice), static_cast<const char*>(twin), size);
      done = put(fresh_of(slice), slice);
    }
    if (done) {
      desk.waiting().wake(slice);
      ::madvise(twin, size, MADV_REMOVE);  // the file itself goes with its last mapping
    } else if (waits) {
      desk.waiting().end(slice);  // the file has all of it
    }
    ::munmap(twin, size);
    return done;
  }
  char* fresh_of(const Span& slice) const { return fresh_ + (slice.start - start_); }
  void drop(const Span& slice) const { ::munmap(fresh_of(slice), slice.size()); }

  std::uint64_t start_;
  char* fresh_;
};

// Unmaps what of `memory`, which is for `piece`, is for none of the spans.
void drop_between(char* memory, const Span& piece, const Spans& spans) {
  std::uint64_t at = piece.start;
  for (std::size_t i = 0; i <= spans.count; ++i) {
    const std::uint64_t end = i < spans.count ? spans.spans[i].start : piece.end;
    if (end > at) ::munmap(memory + (at - piece.start), end - at);
    if (i < spans.count) at = spans.spans[i].end;
  }
}

// Calls `visit` with each mapping of the files of `piece` until it says no. False when maps cannot be read. The names
// of the files are no longer those that they were made with after a restore.
template <typename Visit>
bool each_of_files(const Span& piece, Visit visit) {
  DeviceName device;
  if (!place_device(device)) return false;
  Lines lines("/proc/self/maps");
  Mapping mapping;
  std::size_t read = 0;
  for (std::string_view line; lines.next(line); ++read) {
    if (!read_mapping(line, mapping) || mapping.span.end <= piece.start) continue;
    if (mapping.span.start >= piece.end) break;
    if (mapping.device != device.data() || mapping.span.start < piece.start || mapping.span.end > piece.end) continue;
    if (mapping.access[3] != 's' || mapping.offset != offset_in_file(piece.start, mapping.span.start)) continue;
    if (!visit(mapping)) break;
  }
  return read > 0;
}

bool exchange_back(const Span& piece, Pages advice) {
  Spans spans;
  bool all = true;
  all &= each_of_files(piece, [&](const Mapping& mapping) {
    if (!mapping.access.starts_with("rw-") || !spans.add(mapping.span)) all = false;
    return true;
  });
  if (spans.count == 0) return all;
  char* const memory = fresh(piece.size(), piece.start % kHugePage, advice);
  if (memory == nullptr) return false;
  OutOfFile exchange(spans, piece.start, memory);
  drop_between(memory, piece, spans);
  const bool done = exchange.run();
  exchange.drop_rest();
  return all && done;
}

// Of the only one that is under way.
struct {
  Span piece;
  Pages advice = Pages::usual;
  bool done = false;
  std::atomic<std::uint32_t> busy{0};
} constinit back;

// In a thread of ours: all descriptors of the program may be in use.
void bring_back() {
  back.done = has_own_files() && nothing_pinned() && exchange_back(back.piece, back.advice);
  count_down(back.busy);
}

}  // namespace

bool may_exchange() { return !impossible; }

bool into_file(const Span& piece, const Spans& mappings) {
  Descriptor file = new_file(offset_in_file(piece.start, piece.end));
  if (!file) return false;
  IntoFile exchange(mappings, piece.start, std::move(file));
  return exchange.run();
}

bool out_of_file(const Span& piece, Pages advice) {
  back.piece = piece;
  back.advice = advice;
  back.done = false;
  back.busy = 1;
  if (!control::start_thread("torpor-pinned", bring_back)) return false;
  wait_for(back.busy);
  return back.done;
}

bool leave_file(const Span& piece, Pages advice) {
  for (;;) {
    Span span;
    int access = 0;
    const bool known = each_of_files(piece, [&](const Mapping& mapping) {
      span = mapping.span;
      access = (mapping.access[0] == 'r' ? PROT_READ : 0) | (mapping.access[1] == 'w' ? PROT_WRITE : 0);
      return false;
    });
    if (span.size() == 0) return known;
    char* const memory = fresh(span.size(), span.start % kHugePage, advice);
    if (memory == nullptr) return false;
    if ((access & PROT_READ) == 0) ::mprotect(span.at(), span.size(), PROT_READ);
    copy(memory, static_cast<const char*>(span.at()), span.size());
    if (access != (PROT_READ | PROT_WRITE)) ::mprotect(memory, span.size(), access);
    if (!put(memory, span)) return false;
  }
}

}  // namespace torpor::pinned
