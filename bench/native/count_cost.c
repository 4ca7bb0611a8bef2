/* Question: what does counting a call cost (torpor profile)?
 * Target: at most 3 ns a call when on, nothing when off.
 *
 * For each line "<kind> <calls>" on standard input, makes that many calls and prints the nanoseconds per call. A driver whose
 * functions return at once is this same file with COUNT_COST_DRIVER. `bench/count_cost.py` builds and runs both.
 */
#ifdef COUNT_COST_DRIVER

#include <stdint.h>
#include <string.h>

#define API __attribute__((visibility("default"), noinline))
API int cuInit(unsigned flags) { return flags != 0; }
API int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
API int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = (void *)8, device != 0; }
API int cuCtxSetCurrent(void *context) { return context == NULL; }
API int cuStreamGetId(void *stream, uint64_t *id) { return *id = (uint64_t)stream, 0; }
API int cuStreamQuery(void *stream) { return stream != NULL; }
API int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, void *status) {
  (void)version, (void)flags, (void)status;
  return *out = (void *)cuStreamGetId, strcmp(name, "cuStreamGetId");
}

#else

#include <stdint.h>
#include <string.h>

#include "driver.h"

int main(void) {
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  typedef int (*GetId)(void *, uint64_t *);
  GetId get_id = (GetId)find("cuStreamGetId"), looked_up = NULL;
  uint64_t id;
  int (*query)(void *) = (int (*)(void *))find("cuStreamQuery");
  void *context = NULL;
  int device = 0;
  check(find("cuInit")(0), "cuInit");
  check(find("cuDeviceGet")(&device, 0), "cuDeviceGet");
  check(find("cuDevicePrimaryCtxRetain")(&context, device), "cuDevicePrimaryCtxRetain");
  check(find("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  check(find("cuGetProcAddress_v2")("cuStreamGetId", &looked_up, 12000, (uint64_t)0, NULL), "cuGetProcAddress");

  char kind[64];
  int calls;
  while (scanf("%63s %d", kind, &calls) == 2) {
    double start = now();
    if (!strcmp(kind, "jump")) {
      for (int i = 0; i < calls; i++) get_id(NULL, &id);
    } else if (!strcmp(kind, "looked_up")) {
      for (int i = 0; i < calls; i++) looked_up(NULL, &id);
    } else if (!strcmp(kind, "gated")) {
      for (int i = 0; i < calls; i++) query(NULL);
    } else {
      fprintf(stderr, "no kind '%s'\n", kind);
      return 2;
    }
    printf("%.3f\n", (now() - start) / calls);
    fflush(stdout);
  }
  return 0;
}

#endif
