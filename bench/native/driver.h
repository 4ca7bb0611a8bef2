/* The driver as the benchmarks reach it: by name at run time, with every failure an end. */
#pragma once

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
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
