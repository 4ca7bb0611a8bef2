#include "ledger.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"
#include "proc_scan.h"

namespace sim {

namespace {

constexpr uint32_t slot_count = 256;
constexpr uint32_t share_count = 16384;
constexpr uint32_t nobody = UINT32_MAX;
constexpr uint64_t layout_magic = 0x31304d4953505254;  // "TRPSIM01"

struct Account {
  Uuid device;
  uint64_t bytes;
};

struct Share {
  Uuid device;
  uint64_t inode;
  uint64_t size;     // 0: the entry is free
  uint32_t slot;     // or nobody
  uint32_t holders;  // how often the slot holds it
};

}  // namespace

struct LedgerFile {
  uint64_t magic;
  uint64_t shares_used;  // entries from here on were never used
  Account accounts[slot_count][max_devices];
  Share shares[share_count];
};

namespace {

std::string ledger_path() {
  const char* dir = std::getenv("TORPOR_SIM_DIR");
  std::string base = dir != nullptr && *dir != '\0' ? dir : "/dev/shm";
  return base + "/torpor-simgpu-" + std::to_string(geteuid());
}

// Byte 0 of the file guards the books, byte 1 + n is the life of slot n. Open-file-description locks: they end
// with the last descriptor of this opening.
bool lock_byte(int fd, uint32_t byte, short type, bool wait) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  int result;
  do result = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

bool slot_alive(int fd, uint32_t slot) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 1 + slot;
  lock.l_len = 1;
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

class Books {
 public:
  Books(int fd, LedgerFile* file) : fd_(fd), file_(file) { lock_byte(fd_, 0, F_WRLCK, true); }
  ~Books() { lock_byte(fd_, 0, F_UNLCK, true); }
  Books(const Books&) = delete;
  Books& operator=(const Books&) = delete;
  LedgerFile* operator->() { return file_; }

  Share* find(uint64_t inode, uint32_t slot) {
    for (uint64_t i = 0; i < file_->shares_used; ++i) {
      Share& share = file_->shares[i];
      if (share.size != 0 && share.inode == inode && share.slot == slot) return &share;
    }
    return nullptr;
  }

  // Null when the table is full: the memory then goes unbooked.
  Share* fresh() {
    for (uint64_t i = 0; i < file_->shares_used; ++i)
      if (file_->shares[i].size == 0) return &file_->shares[i];
    return file_->shares_used < share_count ? &file_->shares[file_->shares_used++] : nullptr;
  }

  // A slot whose process is gone: its private memory is free, its shares may live on in descriptors.
  void bury(uint32_t slot) {
    for (Account& account : file_->accounts[slot]) account.bytes = 0;
    for (uint64_t i = 0; i < file_->shares_used; ++i) {
      Share& share = file_->shares[i];
      if (share.size != 0 && share.slot == slot) orphan(share);
    }
  }

  // The slot no longer holds the share. It stays in the books only as long as nobody else's entry covers it.
  void orphan(Share& share) {
    share.slot = nobody;
    share.holders = 0;
    for (uint64_t i = 0; i < file_->shares_used; ++i) {
      Share& other = file_->shares[i];
      if (&other != &share && other.size != 0 && other.inode == share.inode) share.size = 0;
    }
  }

  // Bytes of `device` in use, with the dead cleared away on the way. `own_slot` is the caller's.
  uint64_t used(const Uuid& device, uint32_t own_slot);

 private:
  int fd_;
  LedgerFile* file_;
};

uint64_t Books::used(const Uuid& device, uint32_t own_slot) {
  uint64_t total = 0;
  for (uint32_t slot = 0; slot < slot_count; ++slot) {
    uint64_t bytes = 0;
    for (const Account& account : file_->accounts[slot])
      if (account.device == device) bytes += account.bytes;
    if (bytes == 0) continue;
    if (slot == own_slot || slot_alive(fd_, slot)) total += bytes;
    else bury(slot);
  }
  std::map<uint64_t, uint64_t> shared;   // bytes by inode
  std::map<uint64_t, Share*> orphans;
  for (uint64_t i = 0; i < file_->shares_used; ++i) {
    Share& share = file_->shares[i];
    if (share.size == 0) continue;
    if (share.slot != nobody && share.slot != own_slot && !slot_alive(fd_, share.slot)) orphan(share);
    if (share.size == 0 || share.device != device) continue;
    if (share.slot == nobody) orphans[share.inode] = &share;
    else shared[share.inode] = share.size;
  }
  if (!orphans.empty()) {
    auto held = descriptors_held();
    for (auto& [inode, share] : orphans) {
      if (held.count(inode) != 0) shared[inode] = share->size;
      else share->size = 0;
    }
  }
  for (auto& [inode, size] : shared) total += size;
  return total;
}

}  // namespace

bool Ledger::attach() {
  if (books_ != nullptr) return true;
  if (unavailable_) return false;
  unavailable_ = true;
  Descriptor fd = moved_high(Descriptor(open(ledger_path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)));
  struct stat found{};
  if (!fd || fstat(fd.get(), &found) != 0 || found.st_uid != geteuid()) return false;
  if (!lock_byte(fd.get(), 0, F_WRLCK, true)) return false;
  bool small = static_cast<uint64_t>(found.st_size) < sizeof(LedgerFile);
  if (small && !lengthen(fd.get(), sizeof(LedgerFile))) return false;
  void* at = mmap(nullptr, sizeof(LedgerFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return false;
  auto* file = static_cast<LedgerFile*>(at);
  if (file->magic != layout_magic) {
    std::memset(at, 0, sizeof(LedgerFile));
    file->magic = layout_magic;
  }
  lock_byte(fd.get(), 0, F_UNLCK, true);
  Books books(fd.get(), file);
  for (uint32_t slot = 0; slot < slot_count; ++slot) {
    if (!lock_byte(fd.get(), 1 + slot, F_WRLCK, false)) continue;
    books.bury(slot);
    slot_ = slot;
    books_ = file;
    file_ = std::move(fd);
    unavailable_ = false;
    return true;
  }
  munmap(at, sizeof(LedgerFile));
  return false;
}

void Ledger::leave() {
  std::lock_guard guard(mutex_);
  alone_.clear();
  unavailable_ = false;
  if (books_ == nullptr) return;
  Books(file_.get(), books_).bury(slot_);
  munmap(std::exchange(books_, nullptr), sizeof(LedgerFile));
  file_.reset();
}

void Ledger::abandon() {
  if (books_ != nullptr) munmap(std::exchange(books_, nullptr), sizeof(LedgerFile));
  file_.reset();
}

void Ledger::add_private(const Uuid& device, int64_t size) {
  Account* free_account = nullptr;
  for (Account& account : books_->accounts[slot_]) {
    if (account.bytes == 0 && free_account == nullptr) free_account = &account;
    if (account.bytes == 0 || account.device != device) continue;
    account.bytes += static_cast<uint64_t>(size);
    return;
  }
  *free_account = Account{device, static_cast<uint64_t>(size)};
}

uint64_t Ledger::used(const Uuid& device) {
  std::lock_guard guard(mutex_);
  if (!attach()) return alone_[device];
  return Books(file_.get(), books_).used(device, slot_);
}

void Ledger::charge(const Uuid& device, uint64_t capacity, uint64_t size) {
  if (size == 0) return;
  std::lock_guard guard(mutex_);
  auto check = [&](uint64_t before) {
    require(size <= capacity && before <= capacity - size, CUDA_ERROR_OUT_OF_MEMORY);
  };
  if (!attach()) {
    check(alone_[device]);
    alone_[device] += size;
    return;
  }
  Books books(file_.get(), books_);
  check(books.used(device, slot_));
  add_private(device, static_cast<int64_t>(size));
}

void Ledger::refund(const Uuid& device, uint64_t size) {
  if (size == 0) return;
  std::lock_guard guard(mutex_);
  if (books_ == nullptr) {
    alone_[device] -= size;
    return;
  }
  Books books(file_.get(), books_);
  add_private(device, -static_cast<int64_t>(size));
}

void Ledger::publish(const Uuid& device, uint64_t inode, uint64_t size) {
  std::lock_guard guard(mutex_);
  if (!attach()) return;
  book(device, inode, size);
  Books books(file_.get(), books_);
  add_private(device, -static_cast<int64_t>(size));
}

void Ledger::hold(const Uuid& device, uint64_t inode, uint64_t size) {
  std::lock_guard guard(mutex_);
  book(device, inode, size);
}

void Ledger::book(const Uuid& device, uint64_t inode, uint64_t size) {
  if (!attach()) {
    alone_[device] += size;
    return;
  }
  Books books(file_.get(), books_);
  if (Share* share = books.find(inode, slot_)) {
    ++share->holders;
    return;
  }
  Share* share = books.find(inode, nobody);
  if (share == nullptr) share = books.fresh();
  if (share != nullptr) *share = Share{device, inode, size, slot_, 1};
}

void Ledger::drop(const Uuid& device, uint64_t inode, uint64_t size) {
  std::lock_guard guard(mutex_);
  if (books_ == nullptr) {
    alone_[device] -= size;
    return;
  }
  Books books(file_.get(), books_);
  Share* share = books.find(inode, slot_);
  if (share != nullptr && --share->holders == 0) books.orphan(*share);
}

}  // namespace sim
