// The program's own descriptors of shared memory while the memory is away.
//
// A program may keep a descriptor that it exported for as long as it likes, but in a checkpoint no device file may be open,
// and the file that it had leads to memory that will not be the job's any more. So its number leads to /dev/null meanwhile.
// Used by the control thread between RELEASE and RETURN.
#pragma once

#include <cstdint>
#include <vector>

#include "descriptor.h"

namespace torpor::arena {

// One number of the program's, and whose memory it led to.
struct StandIn {
  int number = -1;
  bool close_on_exec = false;
  std::uint64_t address = 0;  // as in BlockRecord
};

struct SharedFile {
  std::uint64_t address = 0;
  const Descriptor* descriptor = nullptr;  // of the same open file
};

// Puts /dev/null at every number of the program's that leads to one of these files. Numbers that the program changes at
// the same instant may be missed, or meet a file that it opens there within the same microsecond.
std::vector<StandIn> put_stand_ins(const std::vector<SharedFile>& files);

// Puts a memory's new descriptor at those of its numbers that still lead to /dev/null, and forgets them.
void replace_stand_ins(std::vector<StandIn>& stand_ins, std::uint64_t address, const Descriptor& descriptor);

}  // namespace torpor::arena
