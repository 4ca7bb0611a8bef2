/* Counts a process's driver calls with CUPTI, which the driver itself tells of each: `count_begin()`, then `count_write(path)`
 * for lines "NAME CALLS". CUPTI has to be in the process by then (PyTorch brings it). The few declarations are those of CUPTI's
 * documentation of its callback interface. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

enum { DRIVER_API = 1, ENTER = 0, MOST = 4096 };

struct callback_data {
  int site;
  const char* function;
};

static const char* names[MOST];
static uint64_t calls[MOST];

static void count(void* data, int domain, uint32_t id, const void* info) {
  (void)data;
  const struct callback_data* call = info;
  if (domain != DRIVER_API || call->site != ENTER || id >= MOST) return;
  names[id] = call->function;
  __atomic_fetch_add(&calls[id], 1, __ATOMIC_RELAXED);
}

int count_begin(const char* library) {
  void* cupti = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (cupti == NULL) return -1;
  int (*subscribe)(void**, void (*)(void*, int, uint32_t, const void*), void*) = dlsym(cupti, "cuptiSubscribe");
  int (*enable)(uint32_t, void*, int) = dlsym(cupti, "cuptiEnableDomain");
  if (subscribe == NULL || enable == NULL) return -2;
  void* subscriber = NULL;
  int status = subscribe(&subscriber, count, NULL);
  return status != 0 ? status : enable(1, subscriber, DRIVER_API);
}

int count_write(const char* path) {
  FILE* file = fopen(path, "w");
  if (file == NULL) return -1;
  for (int id = 0; id < MOST; ++id) {
    if (calls[id] != 0) fprintf(file, "%s %llu\n", names[id], (unsigned long long)calls[id]);
  }
  return fclose(file);
}
