// Global, shared, local, constant and generic addresses; vectors; volatile accesses; device globals.
extern __shared__ u32 dynamic[];
//! block=96 grid=2
KERNEL shared_static(u32* o, const u32* a) {
  __shared__ u32 s[96]; s[threadIdx.x] = a[index()]; __syncthreads();
  o[index()] = s[95 - threadIdx.x] + s[(threadIdx.x * 7) % 96];
}
//! shared=1024 block=128 grid=1
KERNEL shared_dynamic(u32* o, const u32* a) {
  dynamic[threadIdx.x] = a[threadIdx.x]; dynamic[128 + threadIdx.x] = ~a[threadIdx.x]; __syncthreads();
  o[threadIdx.x] = dynamic[(threadIdx.x * 3) % 256];
}
//! shared=512 block=64 grid=2
KERNEL shared_both(u32* o, const u32* a) {
  __shared__ u64 s[64]; dynamic[threadIdx.x] = a[index()]; s[threadIdx.x] = a[index()] * 5ull; __syncthreads();
  o[index()] = dynamic[threadIdx.x ^ 1] + (u32)(s[63 - threadIdx.x] >> 2);
}
//! block=128 grid=2
KERNEL tree_sum(u32* o, const u32* a) {
  __shared__ u32 s[128]; s[threadIdx.x] = a[index()]; __syncthreads();
  for (u32 d = 64; d; d >>= 1) { if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; __syncthreads(); }
  o[index()] = s[0] + threadIdx.x;
}
//! block=128 grid=1
KERNEL prefix_sum(u32* o, const u32* a) {
  __shared__ u32 s[2][128]; u32 at = 0; s[0][threadIdx.x] = a[threadIdx.x]; __syncthreads();
  for (u32 d = 1; d < 128; d *= 2) {
    s[1 - at][threadIdx.x] = s[at][threadIdx.x] + (threadIdx.x >= d ? s[at][threadIdx.x - d] : 0);
    at = 1 - at; __syncthreads();
  }
  o[threadIdx.x] = s[at][threadIdx.x];
}
//! block=16.16 grid=1
KERNEL transpose(u32* o, const u32* a) {
  __shared__ u32 s[16][17]; const u32 x = threadIdx.x, y = threadIdx.y; s[y][x] = a[16 * y + x]; __syncthreads();
  o[16 * y + x] = s[x][y];
}
//! block=16.16 grid=1 bounds=-8:8
KERNEL matrix_product(f32* o, const f32* a, const f32* b) {
  __shared__ f32 p[16][16], q[16][16]; const u32 x = threadIdx.x, y = threadIdx.y; f32 s = 0;
  p[y][x] = a[16 * y + x]; q[y][x] = b[16 * y + x]; __syncthreads();
  for (u32 k = 0; k < 16; ++k) s = __fmaf_rn(p[y][k], q[k][x], s);
  o[16 * y + x] = s;
}
KERNEL local_array(u32* o, const u32* a) {
  u32 v[24]; for (u32 k = 0; k < 24; ++k) v[k] = a[(index() + k) % 128];
  for (u32 k = 1; k < 24; ++k) { const u32 x = v[k]; u32 j = k; for (; j && v[j - 1] > x; --j) v[j] = v[j - 1]; v[j] = x; }
  o[index()] = v[a[index()] % 24];
}
KERNEL local_bytes(u32* o, const u32* a) {
  u8 v[64]; for (u32 k = 0; k < 64; ++k) v[k] = a[index()] >> k % 29; v[a[index()] & 63] = 250;
  u32 r = 0; for (u32 k = 0; k < 64; ++k) r = r * 5 + v[(k * 11) & 63]; o[index()] = r;
}
__constant__ u32 fixed[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__constant__ struct { f32 x; u8 c; u64 w; } mixed = {2.5f, 7, 1ull << 40};
KERNEL constants(u32* o, const u32* a) {
  o[index()] = fixed[a[index()] & 15] * 100 + fixed[2] + mixed.c + (u32)mixed.x + (u32)(mixed.w >> 33);
}
__device__ u32 numbers[8] = {10, 20, 30, 40, 50, 60, 70, 80};
__device__ u32* pointer = numbers + 3;
__device__ const char* text = "torpor";
KERNEL globals_with_values(u32* o, const u32* a) { o[index()] = numbers[a[index()] & 7] + pointer[-1] + text[a[index()] % 6]; }
__device__ u32 scratch[128];
//! grid=1 block=128
KERNEL globals_written(u32* o, const u32* a) {
  scratch[threadIdx.x] = a[threadIdx.x]; __threadfence(); __syncthreads(); o[threadIdx.x] = scratch[threadIdx.x ^ 5];
}
__device__ __noinline__ u32 sum_of(const u32* p, u32 n) { u32 s = 0; for (u32 k = 0; k < n; ++k) s += p[k]; return s; }
KERNEL generic_pointers(u32* o, const u32* a) {
  __shared__ u32 s[4]; u32 l[4]; if (threadIdx.x < 4) s[threadIdx.x] = threadIdx.x * 1000; __syncthreads();
  for (u32 k = 0; k < 4; ++k) l[k] = a[index()] + k;
  const u32 c = a[index()] % 4; const u32* p = c == 0 ? s : c == 1 ? l : c == 2 ? numbers : fixed;
  o[index()] = sum_of(p, 4);
}
//! per=4
KERNEL spaces(u32* o, const u32* a) {
  __shared__ u32 s; u32 l = a[index()]; if (threadIdx.x == 0) s = 1; __syncthreads(); volatile u32* p = &l; *p = l + 1;
  const void* q = a[index()] & 1 ? (const void*)&s : (const void*)p; if (a[index()] % 3 == 0) q = a; u32* r = o + 4 * index();
  r[0] = __isGlobal(q); r[1] = __isShared(q); r[2] = __isLocal(q); r[3] = __isConstant(fixed);
}
//! per=4
KERNEL vectors_of_four(u32* o, const u32* a) {
  const u32 i = index(); const uint4 v = ((const uint4*)a)[i % 32];
  ((uint4*)o)[i] = make_uint4(v.w, v.z ^ v.x, v.y + 1, v.x);
}
//! per=2
KERNEL vectors_of_two(f64* o, const f64* a) {
  const double2 v = ((const double2*)a)[index() % 64]; ((double2*)o)[index()] = make_double2(v.y, -v.x);
}
//! per=4
KERNEL vectors_of_bytes(u8* o, const u8* a) {
  const uchar4 v = ((const uchar4*)a)[index() % 32]; ((uchar4*)o)[index()] = make_uchar4(v.y, v.x, v.w + 1, v.z << 1);
}
//! per=3
KERNEL vectors_of_three(s32* o, const s32* a) {
  const int3 v = *(const int3*)(a + index() % 126); int3* r = (int3*)o + index(); *r = make_int3(v.z, v.y, v.x);
}
//! per=4
KERNEL narrow_accesses(u32* o, const u32* a) {
  const u32 i = index(); u32* r = o + 4 * i; r[0] = ((const s8*)a)[i]; r[1] = ((const u16*)a)[i]; r[2] = ((const s16*)a)[i];
  ((u8*)(r + 3))[1] = (u8)a[i]; ((u16*)(r + 3))[1] = 0x1234;
}
//! per=2
KERNEL cached_reads(u32* o, const u32* a) {
  const u32 i = index(); u32 q; o[2 * i] = __ldg(a + i) + __ldcg(a + i) + __ldcs(a + i);
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(q) : "l"(a + i)); o[2 * i + 1] = q;
}
KERNEL volatile_accesses(u32* o, const u32* a) {
  volatile u32* p = o + index(); *p = a[index()]; *p = *p + 1; *p = *p * 3;
}
KERNEL union_views(u32* o, const f32* a) {
  union { f32 f; u32 u; u8 b[4]; u16 h[2]; } v; v.f = a[index()]; v.b[2] ^= 0x3F; v.h[0] += 9; o[index()] = v.u;
}
struct __align__(16) Row { u32 a; u16 b; u8 c; u64 d; };
KERNEL padded_structures(u32* o, const u32* a) {
  __shared__ Row rows[64]; Row r = {a[index()], (u16)a[index()], (u8)(a[index()] >> 9), a[index()] * 7ull};
  rows[threadIdx.x] = r; __syncthreads(); const Row& q = rows[63 - threadIdx.x];
  o[index()] = q.a ^ q.b << 3 ^ q.c << 20 ^ (u32)(q.d >> 2) ^ (u32)sizeof(Row);
}
//! block=64 grid=1
KERNEL copy_beside(u32* o, const u32* a) {
  __shared__ u32 s[64];
  const u32 to = (u32)__cvta_generic_to_shared(s + threadIdx.x);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.commit_group; cp.async.wait_group 0;"
               :: "r"(to), "l"(a + threadIdx.x) : "memory");
  __syncthreads(); o[threadIdx.x] = s[(threadIdx.x + 9) & 63];
}
