// What a program sees where there is no driver: errors that it knows, from every kind of entry point.
#include "check.h"
#include "fake_driver.h"

int main() {
  int count = 0;
  void* found = nullptr;
  CUdeviceptr pointer = 0;
  CHECK(cuInit(0) == CUDA_ERROR_NO_DEVICE);
  CHECK(cuDeviceGetCount(&count) == CUDA_ERROR_NO_DEVICE && count == 0);
  CHECK(cuMemAlloc_v2(&pointer, 64) == CUDA_ERROR_NO_DEVICE && pointer == 0);
  CHECK(cuGetProcAddress_v2("cuInit", &found, 12000, 0, nullptr) == CUDA_ERROR_NO_DEVICE && found == nullptr);
  return 0;
}
