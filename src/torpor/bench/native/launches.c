/* Question: what do launches and the most frequent calls cost, seen from the program?
 *
 * For each line "<kind> <count>" on standard input, does it that often and prints the nanoseconds of each. Kinds:
 *   threads:N   null-kernel launches by N threads at once, each into a stream of its own; count and figure per launch of all
 *   streams:N   the same by one thread, into N streams in turn
 *   devices:N   the same by N threads, each on a GPU of its own
 *   graph:N     launches of a graph of N null kernels; the figure is per graph
 *   call:NAME   a driver call (the list below)
 * Needs libcuda.so.1 at run time only; the kernel is PTX and does nothing. Build: cc -O2 -pthread launches.c -ldl
 */
#include <pthread.h>

#include "driver.h"

enum { kMost = 64, kDrain = 512 }; /* kDrain launches, then the stream is waited for: never a full queue */

static const char *code =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry null_kernel(.param .u64 p) { ret; }\n";

struct LaunchConfig { /* CUlaunchConfig */
  unsigned grid[3], block[3], shared;
  void *stream, *attributes;
  unsigned attribute_count;
};
struct KernelNode { /* CUDA_KERNEL_NODE_PARAMS, the first version, which every driver takes */
  void *kernel;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra;
};
typedef int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

/* What one device is worked on with. */
struct Work {
  void *context, *kernel, *streams[kMost];
  uint64_t memory;
};
static struct Work works[kMost];
static Launch launch;
static Fn synchronize;

static struct Work *work_on(int device) {
  struct Work *work = &works[device];
  if (!work->context) {
    void *module = NULL;
    work->context = start(device);
    CALL(cuMemAlloc_v2, &work->memory, (size_t)4096);
    CALL(cuModuleLoadData, &module, code);
    CALL(cuModuleGetFunction, &work->kernel, module, "null_kernel");
  }
  CALL(cuCtxSetCurrent, work->context);
  return work;
}

static void *stream_of(struct Work *work, int number) {
  if (!work->streams[number]) CALL(cuStreamCreate, &work->streams[number], 1);
  return work->streams[number];
}

static void launch_into(struct Work *work, void **streams, int stream_count, long count) {
  void *parameters[] = {&work->memory};
  int next = 0;
  for (long i = 0; i < count; i++) {
    check(launch(work->kernel, 1, 1, 1, 32, 1, 1, 0, streams[next], parameters, NULL), "cuLaunchKernel");
    if (++next == stream_count) next = 0;
    if (i % kDrain == kDrain - 1)
      for (int s = 0; s < stream_count; s++) check(synchronize(streams[s]), "cuStreamSynchronize");
  }
  for (int s = 0; s < stream_count; s++) check(synchronize(streams[s]), "cuStreamSynchronize");
}

struct Thread {
  pthread_t id;
  pthread_barrier_t *begin;
  struct Work *work;
  void *stream;
  long count;
};

static void *thread_body(void *argument) {
  struct Thread *thread = argument;
  CALL(cuCtxSetCurrent, thread->work->context);
  pthread_barrier_wait(thread->begin);
  launch_into(thread->work, &thread->stream, 1, thread->count);
  return NULL;
}

static double by_threads(int threads, int over_devices, long count) {
  struct Thread all[kMost];
  pthread_barrier_t begin;
  pthread_barrier_init(&begin, NULL, threads + 1);
  for (int t = 0; t < threads; t++) {
    struct Work *work = work_on(over_devices ? t : 0);
    all[t] = (struct Thread){.begin = &begin, .work = work, .stream = stream_of(work, over_devices ? 0 : t),
                             .count = (count + threads - 1 - t) / threads};
    if (pthread_create(&all[t].id, NULL, thread_body, &all[t])) check(1, "pthread_create");
  }
  pthread_barrier_wait(&begin);
  double from = now();
  for (int t = 0; t < threads; t++) pthread_join(all[t].id, NULL);
  pthread_barrier_destroy(&begin);
  return now() - from;
}

static double by_streams(int streams, long count) {
  struct Work *work = work_on(0);
  for (int s = 0; s < streams; s++) stream_of(work, s);
  double from = now();
  launch_into(work, work->streams, streams, count);
  return now() - from;
}

static double graphs(int nodes, long count) {
  static void *ready[4096];
  if (nodes > 4095) check(1, "graph:N is for N below 4096; this");
  struct Work *work = work_on(0);
  void *stream = stream_of(work, 0);
  if (!ready[nodes]) {
    void *graph = NULL, *last = NULL, *parameters[] = {&work->memory};
    CALL(cuGraphCreate, &graph, 0);
    struct KernelNode node = {work->kernel, {1, 1, 1}, {32, 1, 1}, 0, parameters, NULL};
    for (int i = 0; i < nodes; i++) {
      void *added = NULL;
      CALL(cuGraphAddKernelNode, &added, graph, i ? &last : NULL, (size_t)(i ? 1 : 0), &node);
      last = added;
    }
    CALL(cuGraphInstantiateWithFlags, &ready[nodes], graph, (unsigned long long)0);
  }
  Fn launch_graph = find("cuGraphLaunch");
  double from = now();
  for (long i = 0; i < count; i++) {
    check(launch_graph(ready[nodes], stream), "cuGraphLaunch");
    if (i % kDrain == kDrain - 1) check(synchronize(stream), "cuStreamSynchronize");
  }
  check(synchronize(stream), "cuStreamSynchronize");
  return now() - from;
}

#define TIMES(fn, ...)                                                                                  \
  do {                                                                                                  \
    Fn wanted = find(fn);                                                                               \
    double from = now();                                                                                \
    for (long i = 0; i < count; i++) {                                                                  \
      check(wanted(__VA_ARGS__), fn);                                                                   \
      if (drains && i % kDrain == kDrain - 1) check(synchronize(stream), "cuStreamSynchronize");        \
    }                                                                                                   \
    if (drains) check(synchronize(stream), "cuStreamSynchronize");                                      \
    return now() - from;                                                                                \
  } while (0)

/* The calls that occurred most often, counted together in PyTorch training, torch.compile, Transformers generation, JAX and
 * CuPy, the most frequent first. */
static double calls(const char *name, long count) {
  static void *library, *kernel;
  struct Work *work = work_on(0);
  void *stream = stream_of(work, 0), *parameters[] = {&work->memory}, *current = NULL, *address = NULL;
  if (!library) {
    CALL(cuLibraryLoadData, &library, code, NULL, NULL, 0, NULL, NULL, 0);
    CALL(cuLibraryGetKernel, &kernel, library, "null_kernel");
  }
  struct LaunchConfig config = {{1, 1, 1}, {32, 1, 1}, 0, stream, NULL, 0};
  const char *text = NULL;
  unsigned flags = 0;
  int drains = 0, value = 0, status = 0;
  if (!strcmp(name, "cuCtxGetDevice")) {
    if (find_if_there("cuCtxGetDevice_v2")) TIMES("cuCtxGetDevice_v2", &value, work->context);
    TIMES("cuCtxGetDevice", &value);
  }
  if (!strcmp(name, "cuDevicePrimaryCtxGetState")) TIMES("cuDevicePrimaryCtxGetState", 0, &flags, &value);
  if (!strcmp(name, "cuKernelGetAttribute")) TIMES("cuKernelGetAttribute", &value, 0, kernel, 0);
  if (!strcmp(name, "cuCtxGetCurrent")) TIMES("cuCtxGetCurrent", &current);
  if (!strcmp(name, "cuGetErrorString")) TIMES("cuGetErrorString", 0, &text);
  if (!strcmp(name, "cuGetProcAddress"))
    TIMES("cuGetProcAddress_v2", "cuLaunchKernel", &address, 12000, (uint64_t)0, &status);
  if (!strcmp(name, "cuDeviceGetAttribute")) TIMES("cuDeviceGetAttribute", &value, 16, 0);
  if (!strcmp(name, "cuKernelSetAttribute")) TIMES("cuKernelSetAttribute", 8, 1024, kernel, 0);
  drains = 1;
  if (!strcmp(name, "cuLaunchKernel"))
    TIMES("cuLaunchKernel", work->kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
  if (!strcmp(name, "cuLaunchKernelEx")) TIMES("cuLaunchKernelEx", &config, work->kernel, parameters, NULL);
  fprintf(stderr, "there is no call '%s' in the list\n", name);
  exit(2);
}

int main(void) {
  char kind[64];
  long count;
  work_on(0);
  launch = (Launch)find("cuLaunchKernel");
  synchronize = find("cuStreamSynchronize");
  while (scanf("%63s %ld", kind, &count) == 2) {
    char *number = strchr(kind, ':');
    int n = number ? atoi(number + 1) : 0;
    double took = -1;
    if (!strncmp(kind, "call:", 5)) took = calls(kind + 5, count);
    else if (n >= 1 && n <= kMost && !strncmp(kind, "threads:", 8)) took = by_threads(n, 0, count);
    else if (n >= 1 && n <= kMost && !strncmp(kind, "devices:", 8)) took = by_threads(n, 1, count);
    else if (n >= 1 && n <= kMost && !strncmp(kind, "streams:", 8)) took = by_streams(n, count);
    else if (n >= 1 && !strncmp(kind, "graph:", 6)) took = graphs(n, count);
    if (took < 0) {
      fprintf(stderr, "there is no kind '%s'\n", kind);
      return 2;
    }
    printf("%.2f\n", took / count);
    fflush(stdout);
  }
  return 0;
}
