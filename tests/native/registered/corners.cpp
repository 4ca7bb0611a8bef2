// What a program may do that is seldom done, for the tests of registered memory. A library that the program loads.
#include <pthread.h>

#include <cstddef>

namespace {

using Call = int(void*);

struct Step {
  Call* call;
  void* argument;
};

struct Work {
  Step first, second;
  int result;
};

void* work(void* told) {
  auto* const mine = static_cast<Work*>(told);
  mine->result = mine->first.call(mine->first.argument);
  if (mine->result == 0) mine->result = mine->second.call(mine->second.argument);
  return nullptr;
}

}  // namespace

// Makes the calls in a thread whose stack is this memory, until one gives something else than 0.
extern "C" int on_stack(void* memory, std::size_t size, Call* first, void* one, Call* second, void* other) {
  Work mine{{first, one}, {second, other}, -1};
  pthread_attr_t attributes;
  pthread_t thread;
  ::pthread_attr_init(&attributes);
  if (::pthread_attr_setstack(&attributes, memory, size) != 0) return -2;
  if (::pthread_create(&thread, &attributes, work, &mine) != 0) return -3;
  ::pthread_join(thread, nullptr);
  return mine.result;
}
