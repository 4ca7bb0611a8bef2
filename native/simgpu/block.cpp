#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"
#include "proc_scan.h"
#include "process.h"
#include "virtual_memory.h"

namespace sim {

namespace {

uint64_t next_block_id() {
  static std::atomic<uint64_t> next{0x10000};
  return next++;
}

// What a descriptor tells about itself to a process that imports it. Blocks are as large as their memfd less one
// page, which holds this.
struct Label {
  char magic[16];
  Uuid uuid;
  uint64_t size;
  int32_t on_device;
  CUmemAllocationProp properties;
};

constexpr char label_magic[16] = "torpor-block-01";
constexpr uint64_t label_room = 4096;

Descriptor make_block_memfd(uint64_t size, const Device* device, const CUmemAllocationProp& properties) {
  Descriptor fd = make_memfd(block_memfd_name, size + label_room);
  Label label{};
  std::memcpy(label.magic, label_magic, sizeof label.magic);
  if (device != nullptr) label.uuid = device->spec.uuid;
  label.on_device = device != nullptr;
  label.size = size;
  label.properties = properties;
  require(pwrite(fd.get(), &label, sizeof label, static_cast<off_t>(size)) == sizeof label, CUDA_ERROR_OUT_OF_MEMORY);
  return fd;
}

Label read_label(int fd) {
  struct stat found{};
  Label label{};
  require(fstat(fd, &found) == 0 && static_cast<uint64_t>(found.st_size) > label_room);
  off_t at = found.st_size - static_cast<off_t>(label_room);
  require(pread(fd, &label, sizeof label, at) == sizeof label);
  require(std::memcmp(label.magic, label_magic, sizeof label.magic) == 0 && label.size == static_cast<uint64_t>(at));
  return label;
}

Device* home_of(const Label& label, const std::vector<std::unique_ptr<Device>>& devices) {
  if (!label.on_device) return nullptr;
  for (const auto& device : devices)
    if (device->spec.uuid == label.uuid) return device.get();
  fail(CUDA_ERROR_INVALID_DEVICE);
}

CUmemAllocationProp here(CUmemAllocationProp properties, const Device* device) {
  if (device != nullptr) properties.location.id = device->ordinal;
  return properties;
}

// Copies what was ever written; the rest is zero on both sides.
void copy_written(int fd, uint64_t size, uint8_t* to) {
  off_t data = 0;
  while (data < static_cast<off_t>(size) && (data = lseek(fd, data, SEEK_DATA)) >= 0) {
    off_t hole = std::min<off_t>(lseek(fd, data, SEEK_HOLE), static_cast<off_t>(size));
    while (data < hole) {
      ssize_t got = pread(fd, to + data, static_cast<size_t>(hole - data), data);
      if (got < 0 && errno == EINTR) continue;
      require(got > 0, CUDA_ERROR_OPERATING_SYSTEM);
      data += got;
    }
  }
}

bool all_zero(const uint8_t* page, size_t size) { return page[0] == 0 && std::memcmp(page, page + 1, size - 1) == 0; }

void write_nonzero(int fd, const uint8_t* from, uint64_t size) {
  constexpr uint64_t step = uint64_t{64} << 10;
  for (uint64_t at = 0; at < size;) {
    uint64_t piece = std::min(step, size - at);
    if (all_zero(from + at, piece)) {
      at += piece;
      continue;
    }
    ssize_t put = pwrite(fd, from + at, piece, static_cast<off_t>(at));
    if (put < 0 && errno == EINTR) continue;
    require(put > 0, CUDA_ERROR_OUT_OF_MEMORY);
    at += static_cast<uint64_t>(put);
  }
}

}  // namespace

Block::Block(Device* on, uint64_t bytes, const CUmemAllocationProp& asked)
    : device(on), id(next_block_id()), size(bytes), properties(asked), imported(false) {
  book();
  try {
    fd_ = make_block_memfd(size, device, properties);
  } catch (...) {
    if (device != nullptr) process().ledger.refund(device->spec.uuid, size);
    throw;
  }
}

Block::Block(int fd, const std::vector<std::unique_ptr<Device>>& devices)
    : device(home_of(read_label(fd), devices)),
      id(next_block_id()),
      size(read_label(fd).size),
      properties(here(read_label(fd).properties, device)),
      imported(true),
      shared_(true) {
  fd_ = moved_high(Descriptor(dup(fd)));
  require(static_cast<bool>(fd_), CUDA_ERROR_OUT_OF_MEMORY);
  book();
}

void Block::book() {
  if (device == nullptr) return;
  if (!shared_) {
    process().ledger.charge(device->spec.uuid, device->spec.memory, size);
    return;
  }
  struct stat found{};
  require(fstat(fd_.get(), &found) == 0, CUDA_ERROR_OPERATING_SYSTEM);
  inode_ = found.st_ino;
  process().ledger.hold(device->spec.uuid, inode_, size);
}

Block::~Block() {
  // The descriptor first: the books look for others.
  fd_.reset();
  if (device == nullptr) return;
  if (shared_) process().ledger.drop(device->spec.uuid, inode_, size);
  else process().ledger.refund(device->spec.uuid, size);
}

int Block::export_descriptor() {
  require(!imported && (properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  int copy = duplicate_for_program(fd_.get());
  if (!shared_ && device != nullptr) {
    struct stat found{};
    fstat(copy, &found);
    inode_ = found.st_ino;
    process().ledger.publish(device->spec.uuid, inode_, size);
  }
  shared_ = true;
  return copy;
}

void Block::save() {
  saved_ = std::make_unique<PrivateMemory>(size, 4096, true);
  copy_written(fd_.get(), size, reinterpret_cast<uint8_t*>(saved_->base()));
}

void Block::recreate() {
  fd_ = make_block_memfd(size, device, properties);
  shared_ = false;
  if (device != nullptr) process().ledger.charge(device->spec.uuid, device->spec.memory, size);
  write_nonzero(fd_.get(), reinterpret_cast<const uint8_t*>(saved_->base()), size);
}

void Block::settle(bool in_memfd) {
  if (in_memfd) saved_.reset();
  else fd_.reset();
}

}  // namespace sim
