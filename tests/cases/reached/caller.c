/* Calls the wrapper's functions through its handle and prints what they give. */
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
  void* wrapper = dlopen("libwrapper.so", RTLD_NOW);
  const char* names[] = {"cuFoo", "cuInit"};
  for (int which = 0; which < 2; ++which) {
    int (*function)(unsigned) = (int (*)(unsigned))dlsym(wrapper, names[which]);
    for (unsigned way = 0; way < 3; ++way) printf("%d ", function(way));
  }
  puts("");
  return 0;
}
