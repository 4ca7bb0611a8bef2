"""CUDA C++ that the API programs launch."""

SMALL = """
__device__ u32 counter = 7; __constant__ u32 fixed[4] = {1, 2, 3, 4}; __managed__ u32 shared_with_host = 5;
__device__ u64 place;
KERNEL store(u32* p, u32 v) { *p = v; }
KERNEL add(u32* p, u32 v) { *p += v; }
KERNEL fill(u32* p, u32 n, u32 v) { for (u32 i = index(); i < n; i += gridDim.x * blockDim.x) p[i] = v + i; }
KERNEL add_counter(u32* p) { *p += counter; }
KERNEL read_fixed(u32* p) { p[threadIdx.x] = fixed[threadIdx.x]; }
KERNEL count_up() { ++counter; }
KERNEL touch_managed(u32 v) { shared_with_host += v; }
KERNEL __launch_bounds__(64) bounded(u32* p) { *p = 1; }
KERNEL with_shared(u32* p) { __shared__ u32 s[250]; s[threadIdx.x] = *p; __syncthreads(); *p = s[0]; }
extern __shared__ u32 dynamic[];
KERNEL with_dynamic(u32* p, u32 n) { dynamic[n - 1] = 9; *p = dynamic[n - 1]; }
KERNEL with_local(u32* p, u32 n) { u32 v[300]; for (u32 i = 0; i < 300; ++i) v[i] = i * n; *p = v[n % 300]; }
struct Mixed { u8 a; u64 b; u16 c; };
KERNEL mixed(u8 a, u64* out, u16 b, Mixed m, f32 f, f64 d) {
  out[0] = a + b; out[1] = m.a + m.b + m.c; out[2] = (u64)(f + d);
}
KERNEL wait_for(volatile u32* flag) { while (*flag == 0); }
KERNEL nothing() {}
"""
