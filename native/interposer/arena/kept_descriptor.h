// Descriptors of device memory that this process keeps, so that memory which came from outside can go out again.
//
// The driver does not export imported memory a second time, but a descriptor may be passed on any number of times. Each
// costs the program a number and is the program's to close by mistake, hence the limits and checks here.
#pragma once

#include <cstdint>
#include <utility>

#include "descriptor.h"

namespace torpor::arena {

// Thread safe, but for one object in two threads.
class KeptDescriptor {
 public:
  KeptDescriptor() = default;
  KeptDescriptor(KeptDescriptor&& other) noexcept : slot_(std::exchange(other.slot_, kNone)), turn_(other.turn_) {}
  KeptDescriptor& operator=(KeptDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      slot_ = std::exchange(other.slot_, kNone);
      turn_ = other.turn_;
    }
    return *this;
  }
  ~KeptDescriptor() { reset(); }

  // Keeps a copy of `fd` instead of what was kept, at a number far above the program's, to be closed in forked children.
  // False, and nothing is kept, when numbers are short; what weighs more then takes the place of what weighs least. With
  // `for_good` it never gives way. The caller holds a ForkHold.
  bool keep(int fd, std::uint64_t weight, bool for_good);

  // Whether a descriptor is kept and the program has neither closed it nor put another file at its number.
  bool intact() const;

  // A further descriptor of the same file, close-on-exec: with `low` at the lowest free number, as the driver gives them.
  // Empty when none is kept or numbers are short. The caller holds a ForkHold.
  Descriptor duplicate(bool low = false) const;

  // Closes what is kept, unless the number is somebody else's by now.
  void reset();

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::uint32_t slot_ = kNone;
  std::uint32_t turn_ = 0;  // a slot that was given to another says so by its own count
};

// Whether the file behind `fd` has been kept by anybody at any time, and whether `fd` is a number at which we keep one.
bool is_marked(int fd);
bool is_kept(int fd);

// Whether the file behind `fd` has been kept by some process that lives in our process id namespace.
bool is_ours(int fd);

}  // namespace torpor::arena
