/* Stands in for the vendor's management library: one GPU, three quarters busy by its counters, half by its utilisation.
 * Without COUNTERS it has none, as GPUs before Hopper. The layout of what is asked for is written down here a second time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char gpu;
static int samples_alive;

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
  *device = &gpu;
  return strcmp(uuid, "GPU-here") ? 6 : 0;
}
struct Rates {
  unsigned gpu, memory;
};
int nvmlDeviceGetUtilizationRates(void *device, struct Rates *rates) {
  rates->gpu = 50;
  return device != &gpu;
}

#ifdef COUNTERS
int nvmlGpmQueryDeviceSupport(void *device, unsigned *support) {
  if (device != &gpu || support[0] != 1) return 2;
  support[1] = 1;
  return 0;
}
int nvmlGpmSampleAlloc(void **sample) {
  *sample = calloc(1, 64);
  if (++samples_alive > 2) abort(); /* one that nobody gave back */
  return 0;
}
int nvmlGpmSampleFree(void *sample) {
  free(sample);
  samples_alive--;
  return 0;
}
int nvmlGpmSampleGet(void *device, char *sample) {
  sample[0] = 'S';
  return device != &gpu;
}
struct Metric {
  unsigned id;
  int status;
  double value;
  const char *short_name, *long_name, *unit;
};
struct Query {
  unsigned version, count;
  char *first, *second;
  struct Metric metrics[333];
};
int nvmlGpmMetricsGet(struct Query *query) {
  if (query->version != 1 || query->count != 1 || query->metrics[0].id != 1) return 2;
  if (query->first[0] != 'S' || query->second[0] != 'S' || query->first == query->second) return 2;
  query->metrics[0].status = 0;
  query->metrics[0].value = 75.0;
  return 0;
}
#endif
