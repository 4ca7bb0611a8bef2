// Objects of the program that graphs keep alive, counted; the last reference calls the program back.
#pragma once

#include <memory>

#include "abi.h"

namespace sim {

struct UserObject {
  UserObject(void* what, CUhostFn how) : object(what), destroy(how) {}
  CUuserObject handle() { return reinterpret_cast<CUuserObject>(this); }

  void* const object;
  const CUhostFn destroy;
  unsigned references = 0;  // all of them, those of graphs included
};

// References that a graph, its clones and what was made of them hold together.
struct UserObjectHold {
  UserObjectHold(std::shared_ptr<UserObject> of, unsigned how_many) : object(std::move(of)), count(how_many) {}
  ~UserObjectHold();
  const std::shared_ptr<UserObject> object;
  unsigned count;
};

// Gives references up. The last one ends the handle, and the program is called from a thread of ours. Under the
// process lock. Throws CUDA_ERROR_INVALID_VALUE when there are not that many.
void release(const std::shared_ptr<UserObject>& object, unsigned count);

}  // namespace sim
