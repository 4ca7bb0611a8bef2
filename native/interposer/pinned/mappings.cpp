#include "mappings.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

namespace torpor::pinned {
namespace {

// VmFlags of ordinary memory: what it may be used for; whether it counts; not written since somebody asked.
constexpr std::string_view kOrdinary = "rd wr mr mw me ac nr sd ";

bool number(std::string_view& line, int base, std::uint64_t& out) {
  const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), out, base);
  if (error != std::errc()) return false;
  line.remove_prefix(static_cast<std::size_t>(stop - line.data()));
  return true;
}

bool skip(std::string_view& line, char expected) {
  if (line.empty() || line.front() != expected) return false;
  line.remove_prefix(1);
  return true;
}

bool word(std::string_view& line, std::string_view& out) {
  const std::size_t length = line.find(' ');
  if (length == std::string_view::npos) return false;
  out = line.substr(0, length);
  line.remove_prefix(length + 1);
  return true;
}

// Whether memory at that address lies where the kernel likes, as far as this mapping is concerned.
bool on_any_node(const void* address) {
  constexpr unsigned long kOfAddress = 1 << 1;
  int policy = 0;
  return ::syscall(SYS_get_mempolicy, &policy, nullptr, 0, address, kOfAddress) != 0 || policy == 0;
}

bool is_ordinary(std::string_view flags, Pages& advice) {
  for (; flags.size() >= 2; flags.remove_prefix(flags.size() > 2 ? 3 : 2)) {
    const std::string_view flag = flags.substr(0, 2);
    if (flag == "hg") {
      advice = Pages::huge;
    } else if (flag == "nh") {
      advice = Pages::never_huge;
    } else if (kOrdinary.find(flag) == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

}  // namespace

Lines::Lines(const char* path) : file_(::open(path, O_RDONLY | O_CLOEXEC)) {}

bool Lines::next(std::string_view& line) {
  for (;;) {
    const char* const from = buffer_.data() + begin_;
    const std::size_t there = end_ - begin_;
    const auto* const stop = static_cast<const char*>(std::memchr(from, '\n', there));
    const bool full = there == buffer_.size();
    if (stop != nullptr || full) {
      line = {from, stop != nullptr ? static_cast<std::size_t>(stop - from) : there};
      begin_ += line.size() + (stop != nullptr ? 1 : 0);
      return true;
    }
    std::memmove(buffer_.data(), from, there);
    begin_ = 0;
    end_ = there;
    const ssize_t got = file_ ? ::read(file_.get(), buffer_.data() + end_, buffer_.size() - end_) : 0;
    if (got <= 0) return false;
    end_ += static_cast<std::size_t>(got);
  }
}

bool read_mapping(std::string_view line, Mapping& out) {
  if (!number(line, 16, out.span.start) || !skip(line, '-')) return false;
  if (!number(line, 16, out.span.end) || !skip(line, ' ')) return false;
  if (!word(line, out.access) || !number(line, 16, out.offset) || !skip(line, ' ')) return false;
  if (!word(line, out.device) || !number(line, 10, out.inode)) return false;
  out.named = line.find_first_not_of(' ') != std::string_view::npos;
  return true;
}

bool Spans::add(const Span& span) {
  if (count == kMost) return false;
  spans[count++] = span;
  return true;
}

bool is_plain(const Span& span, Spans& mappings, Pages& advice) {
  Lines lines("/proc/self/smaps");
  constexpr std::string_view kFlags = "VmFlags: ";
  std::uint64_t at = span.start;
  Mapping mapping;
  bool inside = false;
  for (std::string_view line; at < span.end && lines.next(line);) {
    if (Mapping found; read_mapping(line, found)) {
      if (inside) return false;  // a kernel that tells nothing of flags
      mapping = found;
      inside = mapping.span.end > at;
      if (!inside) continue;
      if (mapping.span.start > at || mapping.access != "rw-p" || mapping.inode != 0 || mapping.named) return false;
    } else if (inside && line.starts_with(kFlags)) {
      Pages here = Pages::usual;
      if (!is_ordinary(line.substr(kFlags.size()), here) || (at > span.start && here != advice)) return false;
      if (!on_any_node(reinterpret_cast<const void*>(at))) return false;
      advice = here;
      const std::uint64_t end = mapping.span.end < span.end ? mapping.span.end : span.end;
      if (!mappings.add({at, end})) return false;
      at = end;
      inside = false;
    }
  }
  return at == span.end;
}

bool nothing_pinned() {
  Lines lines("/proc/self/status");
  constexpr std::string_view kPinned = "VmPin:";
  for (std::string_view line; lines.next(line);) {
    if (line.starts_with(kPinned)) return line.find_first_not_of(" \t0", kPinned.size()) == line.find('k');
  }
  return false;
}

}  // namespace torpor::pinned
