/* Question: what does a copy between host and device cost, by size, kind of host memory, and way?
 *
 * For each line "DIRECTION:MEMORY:WAY:BYTES <count>" on standard input, copies that often and prints the nanoseconds of each.
 *   DIRECTION   in (host to device), out
 *   MEMORY      pinned, pageable
 *   WAY         sync (each copy is waited for), async (put into a stream; waited for after every 64, and at the end)
 * Memory is made when a size first needs it. Needs libcuda.so.1 at run time only. Build: cc -O2 transfers.c -ldl
 */
#include "driver.h"

enum { kDrain = 64 };

typedef int (*CopyIn)(uint64_t, const void *, size_t);
typedef int (*CopyOut)(void *, uint64_t, size_t);
typedef int (*CopyInAsync)(uint64_t, const void *, size_t, void *);
typedef int (*CopyOutAsync)(void *, uint64_t, size_t, void *);

static uint64_t device_memory(size_t size) {
  static uint64_t memory;
  static size_t held;
  if (held < size) {
    if (memory) CALL(cuMemFree_v2, memory);
    CALL(cuMemAlloc_v2, &memory, size);
    held = size;
  }
  return memory;
}

static void *host_memory(int pinned, size_t size) {
  static void *memory[2];
  static size_t held[2];
  if (held[pinned] < size) {
    if (memory[pinned]) {
      if (pinned) CALL(cuMemFreeHost, memory[pinned]);
      else free(memory[pinned]);
    }
    if (pinned) CALL(cuMemHostAlloc, &memory[pinned], size, 0);
    else if (!(memory[pinned] = malloc(size))) check(2, "malloc");
    memset(memory[pinned], 1, size);
    held[pinned] = size;
  }
  return memory[pinned];
}

int main(void) {
  char line[128];
  long count;
  void *stream = NULL;
  start(0);
  CALL(cuStreamCreate, &stream, 1);
  CopyIn in = (CopyIn)find("cuMemcpyHtoD_v2");
  CopyOut out = (CopyOut)find("cuMemcpyDtoH_v2");
  CopyInAsync in_async = (CopyInAsync)find("cuMemcpyHtoDAsync_v2");
  CopyOutAsync out_async = (CopyOutAsync)find("cuMemcpyDtoHAsync_v2");
  Fn synchronize = find("cuStreamSynchronize");
  while (scanf("%127s %ld", line, &count) == 2) {
    char direction[16], memory[16], way[16];
    size_t size;
    if (sscanf(line, "%15[^:]:%15[^:]:%15[^:]:%zu", direction, memory, way, &size) != 4 || !size) {
      fprintf(stderr, "'%s' is not DIRECTION:MEMORY:WAY:BYTES\n", line);
      return 2;
    }
    int inward = !strcmp(direction, "in"), waits = !strcmp(way, "sync");
    void *host = host_memory(!strcmp(memory, "pinned"), size);
    uint64_t device = device_memory(size);
    double from = now();
    for (long i = 0; i < count; i++) {
      if (waits) {
        if (inward) check(in(device, host, size), "cuMemcpyHtoD");
        else check(out(host, device, size), "cuMemcpyDtoH");
      } else {
        if (inward) check(in_async(device, host, size, stream), "cuMemcpyHtoDAsync");
        else check(out_async(host, device, size, stream), "cuMemcpyDtoHAsync");
        if (i % kDrain == kDrain - 1) check(synchronize(stream), "cuStreamSynchronize");
      }
    }
    if (!waits) check(synchronize(stream), "cuStreamSynchronize");
    printf("%.2f\n", (now() - from) / count);
    fflush(stdout);
  }
  return 0;
}
