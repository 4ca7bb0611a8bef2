// In front of every source of the conformance set: short names for types, and bits of floats.
typedef signed char s8; typedef unsigned char u8; typedef short s16; typedef unsigned short u16;
typedef int s32; typedef unsigned u32; typedef long long s64; typedef unsigned long long u64;
typedef float f32; typedef double f64;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
#define KERNEL extern "C" __global__ void
#define DEVICE __device__ __forceinline__
DEVICE u32 index() { return blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE u32 bits(f32 x) { return __float_as_uint(x); }
DEVICE u64 bits(f64 x) { return (u64)__double_as_longlong(x); }
