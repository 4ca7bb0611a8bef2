// A library loaded with the program, whose thread-local variables take most of what a small stack of a thread has: they
// lie in it.
#include <cstddef>

namespace {

constexpr std::size_t kSize = 452 << 10;
thread_local char storage[kSize] __attribute__((tls_model("initial-exec")));

}  // namespace

extern "C" void* torpor_test_storage() { return storage; }
