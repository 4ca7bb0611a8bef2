#include "shared_event.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"
#include "mailbox.h"
#include "proc_scan.h"

namespace sim {

namespace {

constexpr const char* event_memfd_name = "torpor-simgpu-event";
constexpr char handle_magic[8] = {'t', 'r', 'p', 'e', 'v', 't', '0', '1'};

// What a handle says.
struct Name {
  char magic[8];
  uint64_t inode;
  uint64_t nonce;
  int32_t owner;  // process id, as the owner sees it: where to look first
};
static_assert(sizeof(Name) <= sizeof(CUipcEventHandle));

uint64_t random_number() {
  uint64_t number = 0;
  require(getrandom(&number, sizeof number, 0) == sizeof number, CUDA_ERROR_OPERATING_SYSTEM);
  return number;
}

flock byte_lock(short type, uint32_t byte) {
  flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

}  // namespace

struct SharedEvent::Page {
  uint64_t nonce;
  std::atomic<uint64_t> recorded, completed;
  std::atomic<uint32_t> recorder;  // the byte that the process of the last recording has locked
  std::atomic<uint32_t> changes;   // futex
};

SharedEvent::SharedEvent(Descriptor fd) : fd_(std::move(fd)) {
  struct stat found{};
  require(fstat(fd_.get(), &found) == 0, CUDA_ERROR_OPERATING_SYSTEM);
  require(found.st_size == sizeof(Page), CUDA_ERROR_INVALID_HANDLE);
  inode_ = found.st_ino;
  void* at = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  require(at != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  madvise(at, sizeof(Page), MADV_DONTFORK);
  page_ = static_cast<Page*>(at);
  flock lock{};
  do {
    own_byte_ = static_cast<uint32_t>(random_number()) | 1;
    lock = byte_lock(F_WRLCK, own_byte_);
  } while (fcntl(fd_.get(), F_OFD_SETLK, &lock) != 0);
}

SharedEvent::~SharedEvent() { munmap(page_, sizeof(Page)); }

std::shared_ptr<SharedEvent> SharedEvent::make() {
  std::shared_ptr<SharedEvent> made(new SharedEvent(make_memfd(event_memfd_name, sizeof(Page))));
  made->page_->nonce = random_number();
  return made;
}

std::shared_ptr<SharedEvent> SharedEvent::open(const CUipcEventHandle& handle) {
  Name name;
  std::memcpy(&name, &handle, sizeof name);
  require(std::memcmp(name.magic, handle_magic, sizeof handle_magic) == 0);
  Descriptor fd = open_memfd(event_memfd_name, name.inode, name.owner);
  require(static_cast<bool>(fd), CUDA_ERROR_INVALID_HANDLE);
  std::shared_ptr<SharedEvent> opened(new SharedEvent(std::move(fd)));
  require(opened->page_->nonce == name.nonce, CUDA_ERROR_INVALID_HANDLE);
  return opened;
}

CUipcEventHandle SharedEvent::handle() const {
  Name name{};
  std::memcpy(name.magic, handle_magic, sizeof handle_magic);
  name.inode = inode_;
  name.nonce = page_->nonce;
  name.owner = getpid();
  CUipcEventHandle handle{};
  std::memcpy(&handle, &name, sizeof name);
  return handle;
}

bool SharedEvent::named_by(const CUipcEventHandle& handle) const {
  Name name;
  std::memcpy(&name, &handle, sizeof name);
  return std::memcmp(name.magic, handle_magic, sizeof handle_magic) == 0 && name.nonce == page_->nonce;
}

SharedEvent::Turn SharedEvent::announce() {
  const uint32_t before = page_->recorder.exchange(own_byte_);
  return {++page_->recorded, before};
}

void SharedEvent::await_turn(const Turn& turn, const std::function<bool()>& given_up) {
  for (;;) {
    const uint32_t seen = page_->changes;
    if (page_->completed + 1 >= turn.number || given_up()) return;
    flock lock = byte_lock(F_WRLCK, turn.before);
    const bool ended = turn.before != own_byte_ && fcntl(fd_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
    if (ended) return;
    futex_wait(page_->changes, seen, 50);
  }
}

void SharedEvent::complete(uint64_t number) {
  uint64_t before = page_->completed;
  while (before < number && !page_->completed.compare_exchange_weak(before, number)) {
  }
  ++page_->changes;
  futex_wake(page_->changes);
}

uint64_t SharedEvent::latest() const { return page_->recorded; }

bool SharedEvent::done(uint64_t number) {
  if (page_->completed >= number) return true;
  const uint32_t recorder = page_->recorder;
  if (recorder == own_byte_ || page_->recorded != number) return false;
  flock lock = byte_lock(F_WRLCK, recorder);
  if (fcntl(fd_.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK) return false;
  complete(number);
  return true;
}

void SharedEvent::wait(uint64_t number, const std::function<bool()>& given_up) {
  for (;;) {
    const uint32_t seen = page_->changes;
    if (done(number) || given_up()) return;
    futex_wait(page_->changes, seen, 50);
  }
}

}  // namespace sim
