/* Question: what do the most frequent driver calls cost per call, seen from the program?
 * Target: under Torpor within 1 % of native (bench/overhead.py runs this program both ways, taking turns).
 *
 * For each line "<kind> <calls>" on standard input, makes that many calls and prints the nanoseconds per call. Needs only
 * libcuda.so.1 at run time; the kernel is PTX and does nothing. Build: cc -O2 -o calls calls.c -ldl
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int (*Fn)();

static void *driver;

static Fn find(const char *name) {
  Fn fn = (Fn)dlsym(driver, name);
  if (!fn) {
    fprintf(stderr, "no %s in libcuda.so.1\n", name);
    exit(1);
  }
  return fn;
}

static void check(int status, const char *what) {
  if (status) {
    fprintf(stderr, "%s: error %d\n", what, status);
    exit(1);
  }
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static const char *null_kernel =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry null_kernel(.param .u64 p) { ret; }\n";

typedef int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                      void **);
typedef int (*CopyIn)(uint64_t, const void *, size_t);
typedef int (*CopyInAsync)(uint64_t, const void *, size_t, void *);
typedef int (*CopyOut)(void *, uint64_t, size_t);

int main(void) {
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  void *context = NULL, *module = NULL, *kernel = NULL, *stream = NULL;
  uint64_t memory = 0;
  int device = 0;
  check(find("cuInit")(0), "cuInit");
  check(find("cuDeviceGet")(&device, 0), "cuDeviceGet");
  check(find("cuDevicePrimaryCtxRetain")(&context, device), "cuDevicePrimaryCtxRetain");
  check(find("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  check(find("cuMemAlloc_v2")(&memory, (size_t)4096), "cuMemAlloc");
  check(find("cuStreamCreate")(&stream, 1), "cuStreamCreate");
  check(find("cuModuleLoadData")(&module, null_kernel), "cuModuleLoadData");
  check(find("cuModuleGetFunction")(&kernel, module, "null_kernel"), "cuModuleGetFunction");
  Launch launch = (Launch)find("cuLaunchKernel");
  CopyIn copy_in = (CopyIn)find("cuMemcpyHtoD_v2");
  CopyOut copy_out = (CopyOut)find("cuMemcpyDtoH_v2");
  CopyInAsync copy_in_async = (CopyInAsync)find("cuMemcpyHtoDAsync_v2");
  Fn synchronize = find("cuStreamSynchronize");
  Fn current = find("cuCtxGetDevice");
  void *parameters[] = {&memory};
  uint64_t word = 1;

  char kind[64];
  int calls;
  while (scanf("%63s %d", kind, &calls) == 2) {
    double start = now();
    for (int i = 0; i < calls; i++) {
      if (!strcmp(kind, "launch")) {
        check(launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL), "cuLaunchKernel");
      } else if (!strcmp(kind, "copy_in_8B")) {
        check(copy_in(memory, &word, 8), "cuMemcpyHtoD");
      } else if (!strcmp(kind, "copy_out_8B")) {
        check(copy_out(&word, memory, 8), "cuMemcpyDtoH");
      } else if (!strcmp(kind, "copy_in_async_8B")) {
        check(copy_in_async(memory, &word, 8, stream), "cuMemcpyHtoDAsync");
      } else if (!strcmp(kind, "get_device")) {
        check(current(&device), "cuCtxGetDevice");
      } else {
        fprintf(stderr, "no kind '%s'\n", kind);
        return 2;
      }
      if (i % 512 == 511) check(synchronize(stream), "cuStreamSynchronize"); /* never a full queue */
    }
    check(synchronize(stream), "cuStreamSynchronize");
    printf("%.2f\n", (now() - start) / calls);
    fflush(stdout);
  }
  return 0;
}
