// Uses the GPU as whoever it is, needing no file but itself: `other_user STOP`. With `before` or `after` as a second word it
// becomes nobody by itself, before it uses CUDA or in the midst of that.
//
// Every step adds one to each word of a piece of device memory, by way of pinned host memory, after a look at them all; it
// prints "<user id> <step>". It ends with "right" when the file STOP is there, and at once where a word is not as it was.
#include <dlfcn.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS (1u << 20)

static void* driver;

static void check(const char* name, int status) {
  if (status == 0) return;
  fprintf(stderr, "%s returned %d\n", name, status);
  exit(1);
}

#define CALL(name, types, ...) check(#name, ((int (*) types)dlsym(driver, #name))(__VA_ARGS__))

static void become_nobody(const char* when, const char* wanted) {
  if (wanted == NULL || strcmp(when, wanted) != 0) return;
  if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) {
    perror("cannot become nobody");
    exit(1);
  }
}

int main(int count, char** arguments) {
  if (count < 2 || (driver = dlopen("libcuda.so.1", RTLD_NOW)) == NULL) {
    fprintf(stderr, "%s\n", count < 2 ? "no file to stop at" : dlerror());
    return 1;
  }
  void* context;
  uint64_t device;
  uint32_t* host;
  become_nobody("before", arguments[2]);
  CALL(cuInit, (unsigned), 0);
  CALL(cuDevicePrimaryCtxRetain, (void**, int), &context, 0);
  CALL(cuCtxSetCurrent, (void*), context);
  CALL(cuMemAlloc_v2, (uint64_t*, size_t), &device, WORDS * sizeof *host);
  become_nobody("after", arguments[2]);
  CALL(cuMemHostAlloc, (void**, size_t, unsigned), (void**)&host, WORDS * sizeof *host, 0);
  CALL(cuMemsetD32_v2, (uint64_t, unsigned, size_t), device, 0, WORDS);
  for (uint32_t step = 1; access(arguments[1], F_OK) != 0; ++step) {
    CALL(cuMemcpyDtoH_v2, (void*, uint64_t, size_t), host, device, WORDS * sizeof *host);
    for (uint32_t i = 0; i < WORDS; ++i) {
      if (host[i] != step - 1) {
        printf("word %u is %u in step %u\n", i, host[i], step);
        return 1;
      }
      host[i] = step;
    }
    CALL(cuMemcpyHtoD_v2, (uint64_t, const void*, size_t), device, host, WORDS * sizeof *host);
    printf("%u %u\n", (unsigned)geteuid(), step);
    fflush(stdout);
    usleep(20000);
  }
  puts("right");
  return 0;
}
