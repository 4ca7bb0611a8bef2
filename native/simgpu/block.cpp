#include <atomic>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "block_bytes.h"
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

Block::Block(Booked, Device& on, uint64_t bytes, const CUmemAllocationProp& asked)
    : device(&on), id(next_block_id()), size(bytes), properties(asked), imported(false) {
  fd_ = make_block_memfd(size, device, properties);
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

void Block::give_up_booking() { booked_ = false; }

Block::~Block() {
  // The descriptor first: the books look for others.
  fd_.reset();
  if (device == nullptr || !booked_) return;
  if (shared_) process().ledger.drop(device->spec.uuid, inode_, size);
  else process().ledger.refund(device->spec.uuid, size);
}

int Block::export_descriptor() {
  require((properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0);
  require(!imported);
  int copy = duplicate_for_program(fd_.get());
  publish();
  return copy;
}

void Block::publish() {
  require(!imported);
  if (!shared_ && device != nullptr) {
    struct stat found{};
    require(fstat(fd_.get(), &found) == 0, CUDA_ERROR_OPERATING_SYSTEM);
    inode_ = found.st_ino;
    process().ledger.publish(device->spec.uuid, inode_, size);
  }
  shared_ = true;
}

void Block::save() {
  saved_ = std::make_unique<PrivateMemory>(size, 4096, Inherited::as_a_copy);
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
