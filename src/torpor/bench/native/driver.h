/* The driver as these programs reach it: by name at run time, every failure an end; and what they have in common. */
#pragma once

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int (*Fn)();

static void *driver;

static void check(int status, const char *what) {
  if (status) {
    fprintf(stderr, "%s: error %d\n", what, status);
    exit(1);
  }
}

static Fn find_if_there(const char *name) { return (Fn)dlsym(driver, name); }

static Fn find(const char *name) {
  Fn fn = find_if_there(name);
  if (!fn) {
    fprintf(stderr, "there is no %s in libcuda.so.1\n", name);
    exit(1);
  }
  return fn;
}

/* Calls `name` with these arguments, whose types must be those of the driver's declaration. */
#define CALL(name, ...) check(find(#name)(__VA_ARGS__), #name)

static double now(void) { /* nanoseconds */
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Loads the driver and makes a device's primary context current; ends the program where there is none. */
static void *start(int ordinal) {
  void *context = NULL;
  int device = 0;
  if (!driver && !(driver = dlopen("libcuda.so.1", RTLD_NOW))) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  CALL(cuInit, 0);
  CALL(cuDeviceGet, &device, ordinal);
  CALL(cuDevicePrimaryCtxRetain, &context, device);
  CALL(cuCtxSetCurrent, context);
  return context;
}
