extern "C" __global__ void triple(int *p) { p[threadIdx.x] *= 3; }
extern "C" __global__ void fill(int *p, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = p[i] * p[i] + i; }
