/* Question: does an 8-byte copy cost more when its device memory comes from the driver's virtual memory calls, and does
 * any of the driver's ways to ask for the same copy avoid that?
 * Target: none; it tells how much of Torpor's overhead on small copies (bench/overhead.py) is the driver's own.
 *
 * One process, natively: the same copies to memory of several kinds, taking turns. Prints for each kind the nanoseconds
 * (median) and the ratio to cuMemAlloc memory (median of the turns, lowest, highest).
 * Build: cc -O2 -o copy_targets copy_targets.c -ldl
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver.h"

enum { kTurns = 41, kMiB = 1 << 20, kDecompress = 2 };

/* CUmemAllocationProp and CUmemAccessDesc */
struct Properties {
  int type, handle_types, location_type, location;
  void *win32;
  unsigned char compression, rdma;
  unsigned short usage;
  unsigned char reserved[4];
};
struct Access {
  int type, id, flags;
};

struct Kind {
  const char *name;
  int exportable, rdma, usage;
  size_t reservation;
  uint64_t hint;
  uint64_t memory;
};

static uint64_t reservation_base;

static uint64_t virtual_memory(const struct Kind *kind, size_t offset) {
  struct Properties properties = {1, kind->exportable, 1, 0, NULL, 0, (unsigned char)kind->rdma,
                                  (unsigned short)kind->usage, {0}};
  struct Access access = {1, 0, 3};
  uint64_t handle, address;
  check(find("cuMemCreate")(&handle, (size_t)2 * kMiB, &properties, (uint64_t)0), "cuMemCreate");
  if (kind->hint) {
    if (!reservation_base) {
      check(find("cuMemAddressReserve")(&reservation_base, kind->reservation, (size_t)0, kind->hint, (uint64_t)0),
            "cuMemAddressReserve");
    }
    address = reservation_base + offset;
  } else {
    check(find("cuMemAddressReserve")(&address, kind->reservation, (size_t)0, (uint64_t)0, (uint64_t)0),
          "cuMemAddressReserve");
  }
  check(find("cuMemMap")(address, (size_t)2 * kMiB, (size_t)0, handle, (uint64_t)0), "cuMemMap");
  check(find("cuMemSetAccess")(address, (size_t)2 * kMiB, &access, (size_t)1), "cuMemSetAccess");
  return address;
}

/* CUDA_MEMCPY2D */
struct Copy2D {
  size_t from_x, from_y;
  int from_type;
  const void *from_host;
  uint64_t from_device;
  void *from_array;
  size_t from_pitch, to_x, to_y;
  int to_type;
  void *to_host;
  uint64_t to_device;
  void *to_array;
  size_t to_pitch, bytes, rows;
};

/* `word` and `pinned` are 8 bytes of pageable and of pinned memory. */
enum Call {
  kIn,
  kOut,
  kInAsync,
  kInPinned,
  kInPinnedUnified,
  kInPinned2D,
  kOutPinned,
  kOutPinnedUnified,
  kOutPinned2D,
  kCalls
};
static const struct {
  const char *name, *entry;
  int count;
} calls[kCalls] = {
    {"in, pageable, waited for", "cuMemcpyHtoD_v2", 1500},
    {"out, pageable, waited for", "cuMemcpyDtoH_v2", 1000},
    {"in, pageable, in a stream", "cuMemcpyHtoDAsync_v2", 4000},
    {"in, pinned, in a stream", "cuMemcpyHtoDAsync_v2", 4000},
    {"in, pinned, by cuMemcpyAsync", "cuMemcpyAsync", 4000},
    {"in, pinned, by cuMemcpy2DAsync", "cuMemcpy2DAsync_v2", 4000},
    {"out, pinned, in a stream", "cuMemcpyDtoHAsync_v2", 4000},
    {"out, pinned, by cuMemcpyAsync", "cuMemcpyAsync", 4000},
    {"out, pinned, by cuMemcpy2DAsync", "cuMemcpy2DAsync_v2", 4000},
};
static Fn entries[kCalls];
static void *stream;
static uint64_t word = 1, *pinned;

static int once(enum Call call, uint64_t memory) {
  enum { kHost = 1, kDevice = 2 };
  const size_t bytes = sizeof word;
  switch (call) {
    case kIn: return entries[call](memory, &word, bytes);
    case kOut: return entries[call](&word, memory, bytes);
    case kInAsync: return entries[call](memory, &word, bytes, stream);
    case kInPinned: return entries[call](memory, pinned, bytes, stream);
    case kInPinnedUnified: return entries[call](memory, (uint64_t)pinned, bytes, stream);
    case kOutPinned: return entries[call](pinned, memory, bytes, stream);
    case kOutPinnedUnified: return entries[call]((uint64_t)pinned, memory, bytes, stream);
    default: break;
  }
  struct Copy2D copy = {0};
  copy.bytes = copy.from_pitch = copy.to_pitch = bytes;
  copy.rows = 1;
  int in = call == kInPinned2D;
  copy.from_type = in ? kHost : kDevice;
  copy.to_type = in ? kDevice : kHost;
  copy.from_host = copy.to_host = pinned;
  copy.from_device = copy.to_device = memory;
  return entries[call](&copy, stream);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values) {
  qsort(values, kTurns, sizeof *values, ascending);
  return values[kTurns / 2];
}

int main(void) {
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const size_t tebibyte = (size_t)1 << 40;
  const uint64_t hint = 0x600000000000;
  struct Kind kinds[] = {
      {"cuMemAlloc", 0, 0, 0, 0, 0, 0},
      {"cuMemAlloc again", 0, 0, 0, 0, 0, 0},
      {"virtual, own reservation", 0, 0, 0, 2 * kMiB, 0, 0},
      {"virtual, exportable", 1, 0, 0, 2 * kMiB, 0, 0},
      {"virtual, exportable, RDMA", 1, 1, 0, 2 * kMiB, 0, 0},
      {"virtual, exportable, RDMA, 1 GiB reservation", 1, 1, 0, (size_t)1 << 30, 0, 0},
      {"virtual, exportable, RDMA, 1 TiB reservation", 1, 1, 0, tebibyte, hint, 0},
      {"virtual, exportable, 1 TiB reservation", 1, 0, 0, tebibyte, hint, 0},
  };
  enum { kKinds = sizeof kinds / sizeof *kinds };
  void *context = NULL;
  check(find("cuInit")(0), "cuInit");
  check(find("cuDevicePrimaryCtxRetain")(&context, 0), "cuDevicePrimaryCtxRetain");
  check(find("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  check(find("cuStreamCreate")(&stream, 1), "cuStreamCreate");
  for (int k = 0; k < kKinds; k++) {
    if (kinds[k].reservation) {
      kinds[k].memory = virtual_memory(&kinds[k], (size_t)k * 2 * kMiB);
    } else {
      check(find("cuMemAlloc_v2")(&kinds[k].memory, (size_t)4096), "cuMemAlloc");
    }
  }
  check(find("cuMemAllocHost_v2")(&pinned, sizeof word), "cuMemAllocHost");
  for (int call = 0; call < kCalls; call++) entries[call] = find(calls[call].entry);
  Fn synchronize = find("cuStreamSynchronize");
  static double times[kCalls][kKinds][kTurns];
  for (int turn = -2; turn < kTurns; turn++) {
    for (int call = 0; call < kCalls; call++) {
      for (int step = 0; step < kKinds; step++) {
        int k = turn % 2 ? step : kKinds - 1 - step;
        double start = now();
        for (int i = 0; i < calls[call].count; i++) {
          check(once((enum Call)call, kinds[k].memory), calls[call].entry);
          if (i % 512 == 511) check(synchronize(stream), "cuStreamSynchronize");
        }
        check(synchronize(stream), "cuStreamSynchronize");
        if (turn >= 0) times[call][k][turn] = (now() - start) / calls[call].count;
      }
    }
  }
  printf("| copy | memory | ns | / cuMemAlloc |\n| --- | --- | --- | --- |\n");
  for (int call = 0; call < kCalls; call++) {
    double first[kTurns];
    memcpy(first, times[call][0], sizeof first);
    for (int k = 0; k < kKinds; k++) {
      double ratios[kTurns];
      for (int turn = 0; turn < kTurns; turn++) ratios[turn] = times[call][k][turn] / first[turn];
      double middle = median(ratios);
      printf("| %s | %s | %.0f | %.3f (%.3f to %.3f) |\n", calls[call].name, kinds[k].name, median(times[call][k]), middle,
             ratios[0], ratios[kTurns - 1]);
    }
  }
  return 0;
}
