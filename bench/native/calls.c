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

#include "driver.h"

static const char *null_kernel =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry null_kernel(.param .u64 p) { ret; }\n"
    ".visible .entry k0(.param .u64 p) { ret; }\n.visible .entry k1(.param .u64 p) { ret; }\n"
    ".visible .entry k2(.param .u64 p) { ret; }\n.visible .entry k3(.param .u64 p) { ret; }\n"
    ".visible .entry k4(.param .u64 p) { ret; }\n.visible .entry k5(.param .u64 p) { ret; }\n"
    ".visible .entry k6(.param .u64 p) { ret; }\n.visible .entry k7(.param .u64 p) { ret; }\n"
    ".visible .entry await(.param .u64 flag, .param .u32 least) {\n"
    ".reg .u64 %a; .reg .u32 %v, %l; .reg .pred %p;\n"
    "ld.param.u64 %a, [flag]; ld.param.u32 %l, [least];\n"
    "AGAIN: ld.volatile.global.u32 %v, [%a]; setp.lt.u32 %p, %v, %l; @%p bra AGAIN; ret; }\n"
    ".visible .entry tell(.param .u64 flag, .param .u32 now) {\n"
    ".reg .u64 %a; .reg .u32 %v; ld.param.u64 %a, [flag]; ld.param.u32 %v, [now];\n"
    "st.volatile.global.u32 [%a], %v; ret; }\n"
    ".visible .entry k8(.param .u64 p) { ret; }\n.visible .entry k9(.param .u64 p) { ret; }\n";

typedef int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                      void **);
typedef int (*CopyIn)(uint64_t, const void *, size_t);
typedef int (*CopyInAsync)(uint64_t, const void *, size_t, void *);
typedef int (*CopyWithin)(uint64_t, uint64_t, size_t, void *);
typedef int (*CopyOut)(void *, uint64_t, size_t);

/* Some 5 µs that read and write memory of the thread's own; how long they took, in ns. */
static double work(void) {
  enum { WORDS = 4096 };
  static uint32_t memory[WORDS], at;
  double before = now();
  do {
    for (int i = 0; i < 200; i++) {
      at = (at * 1664525u + 1013904223u) ^ memory[at % WORDS];
      memory[at % WORDS] += (uint32_t)i;
    }
  } while (now() - before < 5000);
  return now() - before;
}

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
  CopyWithin copy_within = (CopyWithin)find("cuMemcpyDtoDAsync_v2");
  Fn fill = find("cuMemsetD32Async");
  Fn synchronize = find("cuStreamSynchronize");
  Fn current = find("cuCtxGetDevice");
  void *parameters[] = {&memory};
  void *chain[10], *pinned = NULL, *event = NULL;
  for (int i = 0; i < 10; i++) {
    char name[] = {'k', (char)('0' + i), 0};
    check(find("cuModuleGetFunction")(&chain[i], module, name), "cuModuleGetFunction");
  }
  check(find("cuMemHostAlloc")(&pinned, (size_t)4096, 0), "cuMemHostAlloc");
  check(find("cuEventCreate")(&event, 2), "cuEventCreate");
  Fn record = find("cuEventRecord"), wait = find("cuStreamWaitEvent");
  void *await = NULL, *tell = NULL, *second = NULL;
  check(find("cuModuleGetFunction")(&await, module, "await"), "cuModuleGetFunction");
  check(find("cuModuleGetFunction")(&tell, module, "tell"), "cuModuleGetFunction");
  check(find("cuStreamCreate")(&second, 1), "cuStreamCreate");
  uint64_t flag = memory + 64;
  uint32_t step = 0;
  void *signal[] = {&flag, &step};
  check(find("cuMemsetD32_v2")(flag, 0, (size_t)1), "cuMemsetD32");
  uint64_t varied = 0;
  void *other_parameters[] = {&varied};
  uint64_t word = 1;

  char kind[64];
  int calls;
  while (scanf("%63s %d", kind, &calls) == 2) {
    int burst = !strcmp(kind, "burst"); /* what a launch costs the program itself: waiting for the GPU is not counted */
    int paced = !strcmp(kind, "paced"); /* the same with work between the launches, as between those of a framework */
    double start = now(), left_out = 0;
    for (int i = 0; i < calls; i++) {
      if (paced) left_out += work();
      if (!strcmp(kind, "launch") || burst || paced) {
        check(launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL), "cuLaunchKernel");
      } else if (!strcmp(kind, "chain") || !strcmp(kind, "chain_varied")) { /* of ten kernels, again and again */
        varied = (uint64_t)i;
        void **given = i % 10 == 3 && kind[5] ? other_parameters : parameters;
        check(launch(chain[i % 10], 1, 1, 1, 32, 1, 1, 0, stream, given, NULL), "cuLaunchKernel");
      } else if (!strcmp(kind, "chain_moving")) { /* with a fill and a copy between the kernels */
        if (i % 10 == 2) check(fill(memory + 128, 0, (size_t)8, stream), "cuMemsetD32Async");
        else if (i % 10 == 6) check(copy_within(memory + 256, memory + 128, 32, stream), "cuMemcpyDtoDAsync");
        else check(launch(chain[i % 10], 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL), "cuLaunchKernel");
      } else if (!strcmp(kind, "copy_within")) { /* many small ones, each of another place and size */
        size_t bytes = 64 + i % 7 * 8, at = (size_t)(i % 13) * 128;
        check(copy_within(memory + 2048 + at, memory + at, bytes, stream), "cuMemcpyDtoDAsync");
      } else if (!strcmp(kind, "under_way")) { /* chains that wait for what comes after all of them */
        step += i % 10 == 0;
        if (i % 10 == 0) check(launch(await, 1, 1, 1, 1, 1, 1, 0, stream, signal, NULL), "cuLaunchKernel");
        else check(launch(chain[i % 10], 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL), "cuLaunchKernel");
        if (i % 200 == 199 || i == calls - 1) {
          check(launch(tell, 1, 1, 1, 1, 1, 1, 0, second, signal, NULL), "cuLaunchKernel");
          check(synchronize(second), "cuStreamSynchronize");
        }
      } else if (!strcmp(kind, "mark")) { /* a wait that changes nothing */
        check(record(event, stream), "cuEventRecord");
        check(wait(stream, event, 0), "cuStreamWaitEvent");
      } else if (!strcmp(kind, "copy_in_pinned_8B")) {
        check(copy_in_async(memory, pinned, 8, stream), "cuMemcpyHtoDAsync");
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
      if ((burst ? i % 100 == 99 : i % 512 == 511 && strcmp(kind, "under_way")) || i == calls - 1) { /* never a full queue */
        double before = now();
        check(synchronize(stream), "cuStreamSynchronize");
        left_out += burst || paced ? now() - before : 0;
      }
    }
    printf("%.2f\n", (now() - start - left_out) / calls);
    fflush(stdout);
  }
  return 0;
}
