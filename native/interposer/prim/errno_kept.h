// Keeps the program's errno across our own system calls.
#pragma once

#include <cerrno>

namespace torpor {

class ErrnoKept {
 public:
  ErrnoKept() : value_(errno) {}
  ~ErrnoKept() { errno = value_; }
  ErrnoKept(const ErrnoKept&) = delete;
  ErrnoKept& operator=(const ErrnoKept&) = delete;

 private:
  int value_;
};

}  // namespace torpor
