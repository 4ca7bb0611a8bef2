// What is mapped in this process, as /proc/self tells. Allocates nothing, so that it can be asked while a fork is under
// way.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "../arena/descriptor.h"
#include "span.h"

namespace torpor::pinned {

struct Mapping {
  Span span;
  std::string_view access;  // as "rw-p"
  std::uint64_t offset = 0;
  std::string_view device;  // as "00:1f"
  std::uint64_t inode = 0;
  bool named = false;  // by a path, or "[heap]"
};

// The lines of a file of /proc. A line that does not fit is cut.
class Lines {
 public:
  explicit Lines(const char* path);
  // The next line, without its end; good until the one after. False at the end.
  bool next(std::string_view& line);

 private:
  Descriptor file_;
  std::array<char, 8192> buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

// False for a line of smaps that tells of a mapping, and begins none.
bool read_mapping(std::string_view line, Mapping& out);

// Spans that lie one after the other.
struct Spans {
  static constexpr std::size_t kMost = 64;
  std::array<Span, kMost> spans;
  std::size_t count = 0;

  // False when there is no room for it.
  bool add(const Span& span);
};

enum class Pages { usual, huge, never_huge };

// Whether all of `span` is private memory without a file, a name, or anything asked for it that would be lost with the
// mapping (no copy in children, pages that stay, a node, ...): then its mappings and what was advised about huge pages.
// Takes time by the memory that the process has.
bool is_plain(const Span& span, Spans& mappings, Pages& advice);

// Whether nothing (RDMA, io_uring) uses pages of this process by their number. The driver's use is not among that.
bool nothing_pinned();

}  // namespace torpor::pinned
