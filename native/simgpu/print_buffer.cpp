#include "print_buffer.h"

#include <cstdio>
#include <utility>

namespace sim {

void PrintBuffer::print(std::string_view text) {
  std::lock_guard lock(mutex_);
  if (text_.size() + text.size() <= limit_) text_ += text;
}

void PrintBuffer::flush() {
  std::string text;
  {
    std::lock_guard lock(mutex_);
    text = std::exchange(text_, {});
  }
  if (text.empty()) return;
  // Through stdio, so that it keeps its place among what the program prints.
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void PrintBuffer::limit(size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

}  // namespace sim
