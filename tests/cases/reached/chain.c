/* A wrapper library around another of the same interface, as cuDNN is around its parts: it looks up its own names in
 * the handle of what it depends on, and calls what it finds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#ifdef DEPENDENCY
int cuFoo(unsigned value) { return 100 + (int)value; }
int cuInit(unsigned value) { return 200 + (int)value; }
#else
static int depth;

static int pass_on(const char* name, unsigned value) {
  if (depth != 0) abort(); /* it found itself */
  depth = 1;
  void* handle = RTLD_NEXT;
  if (value == 1) handle = dlopen("libdependency.so", RTLD_NOW);
  if (value == 2) handle = dlopen("libdependency.so", RTLD_NOW | RTLD_NOLOAD);
  int (*next)(unsigned) = (int (*)(unsigned))dlsym(handle, name);
  const int result = next == 0 ? -1 : next(value);
  depth = 0;
  return result;
}

int cuFoo(unsigned value) { return pass_on("cuFoo", value); }
int cuInit(unsigned value) { return pass_on("cuInit", value); }
#endif
