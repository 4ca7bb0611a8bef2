// Objects of the program that graphs keep alive.
#include "user_object.h"

#include "entry.h"
#include "graph_names.h"
#include "own_thread.h"

using namespace sim;

namespace {

std::shared_ptr<UserObject> named(CUuserObject handle) {
  return process().user_objects.find(handle, CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

UserObjectHold::~UserObjectHold() {
  if (count != 0) sim::release(object, count);
}

void sim::release(const std::shared_ptr<UserObject>& object, unsigned count) {
  require(count != 0 && count <= object->references);
  object->references -= count;
  if (object->references != 0) return;
  process().user_objects.remove(object->handle(), CUDA_ERROR_INVALID_VALUE);
  start_own_thread("torpor-destroy", [object] { object->destroy(object->object); });
}

SIM_API(cuUserObjectCreate, change,
        (CUuserObject* out, void* object, CUhostFn destroy, unsigned references, unsigned flags),
        (out, object, destroy, references, flags)) {
  require(out != nullptr && destroy != nullptr && references != 0 && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  auto made = std::make_shared<UserObject>(object, destroy);
  made->references = references;
  *out = process().user_objects.add(std::move(made));
}

SIM_API(cuUserObjectRetain, change, (CUuserObject handle, unsigned count), (handle, count)) {
  require(count != 0);
  named(handle)->references += count;
}

SIM_API(cuUserObjectRelease, change, (CUuserObject handle, unsigned count), (handle, count)) {
  release(named(handle), count);
}

SIM_API(cuGraphRetainUserObject, change, (CUgraph graph, CUuserObject handle, unsigned count, unsigned flags),
        (graph, handle, count, flags)) {
  require(count != 0 && (flags & ~static_cast<unsigned>(CU_GRAPH_USER_OBJECT_MOVE)) == 0);
  std::shared_ptr<UserObject> object = named(handle);
  std::shared_ptr<Graph> holder = graph_of(graph);
  if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) object->references += count;
  else require(count <= object->references);
  holder->user_objects.push_back(std::make_shared<UserObjectHold>(std::move(object), count));
}

SIM_API(cuGraphReleaseUserObject, change, (CUgraph graph, CUuserObject handle, unsigned count),
        (graph, handle, count)) {
  std::shared_ptr<UserObject> object = named(handle);
  auto& held = graph_of(graph)->user_objects;
  for (size_t i = 0; i < held.size(); ++i) {
    if (held[i]->object != object || held[i]->count < count || count == 0) continue;
    held[i]->count -= count;
    if (held[i]->count == 0) held.erase(held.begin() + static_cast<ptrdiff_t>(i));
    release(object, count);
    return;
  }
  fail(CUDA_ERROR_INVALID_VALUE);
}
