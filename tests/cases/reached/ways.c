/* A program that fills device memory, waits for a file, and looks at what it finds: `ways GO`. How it gets at the driver
 * is up to WAY: linked (0), opened by the driver's full path (1), with RTLD_DEEPBIND (2), in a namespace of its own (3),
 * through both the library that it has and one of its own (4). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if WAY == 0
extern int cuInit(), cuDevicePrimaryCtxRetain(), cuCtxSetCurrent(), cuMemAlloc_v2(), cuMemsetD32_v2(), cuMemcpyDtoH_v2();
#define GET(handle, name) name
#else
#define GET(handle, name) ((int (*)())dlsym(handle, #name))
#endif

static void* open_it(void) {
  const char* path = getenv("TORPOR_REAL_LIBCUDA"); /* the software GPU's, in a job */
  if (path == NULL) path = getenv("DRIVER");
#if WAY == 1
  return dlopen(path, RTLD_NOW);
#elif WAY == 2
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND | RTLD_LOCAL);
#elif WAY >= 3
  return dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
#else
  return path == NULL ? NULL : (void*)path;
#endif
}

static void need(int status) {
  if (status == 0) return;
  printf("status %d\n", status);
  exit(1);
}

int main(int count, char** words) {
  void* handle = open_it();
  if (count < 2 || (WAY != 0 && handle == NULL)) return 2;
#if WAY == 4
  need(((int (*)())dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit"))(0));
#endif
  void* context = NULL;
  unsigned long long address = 0;
  unsigned word = 0;
  need(GET(handle, cuInit)(0));
  need(GET(handle, cuDevicePrimaryCtxRetain)(&context, 0));
  need(GET(handle, cuCtxSetCurrent)(context));
  need(GET(handle, cuMemAlloc_v2)(&address, (size_t)4096));
  need(GET(handle, cuMemsetD32_v2)(address, 77u, (size_t)1024));
  puts("ready");
  fflush(stdout);
  while (access(words[1], F_OK) != 0) usleep(5000);
  need(GET(handle, cuMemcpyDtoH_v2)(&word, address + 4092, (size_t)4));
  printf("%u\n", word);
  return 0;
}
