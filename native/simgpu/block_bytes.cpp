#include "block_bytes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>

#include "failure.h"

namespace sim {

namespace {

bool all_zero(const uint8_t* page, size_t size) { return page[0] == 0 && std::memcmp(page, page + 1, size - 1) == 0; }

}  // namespace

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

}  // namespace sim
