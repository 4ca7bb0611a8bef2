// Atomic operations of all kinds, scopes and orders. Results are those that do not depend on who came first.
//! fill=0 grid=1 block=128
KERNEL global_counters(u32* o, const u32* a) {
  atomicAdd(o, a[threadIdx.x]); atomicSub(o + 1, a[threadIdx.x]); atomicOr(o + 2, 1u << (a[threadIdx.x] & 31));
  atomicXor(o + 3, a[threadIdx.x]); atomicMax(o + 4, a[threadIdx.x]); atomicMax((s32*)o + 5, (s32)a[threadIdx.x]);
  atomicInc(o + 6, 40); atomicAdd(o + 7 + a[threadIdx.x] % 100, 1);
}
//! fill=255 grid=1 block=128
KERNEL global_minima(u32* o, const u32* a) {
  atomicMin(o, a[threadIdx.x] | 16); atomicMin((s32*)o + 1, (s32)a[threadIdx.x]); atomicAnd(o + 2, ~(1u << (a[threadIdx.x] & 31)));
  atomicDec(o + 3, 50); atomicAnd(o + 4, a[threadIdx.x] | 0xFF00FF);
}
//! fill=0 grid=1 block=128
KERNEL wide_counters(u64* o, const u64* a) {
  atomicAdd(o, a[threadIdx.x]); atomicMax(o + 1, a[threadIdx.x]); atomicMax((s64*)o + 2, (s64)a[threadIdx.x]);
  atomicXor(o + 3, a[threadIdx.x]); atomicOr(o + 4, a[threadIdx.x] & 0xF0F0); atomicMin((s64*)o + 5, (s64)a[threadIdx.x]);
}
//! grid=1 block=128
KERNEL exchange_all(u32* o, const u32* a) {
  __shared__ u32 s[128]; s[threadIdx.x] = a[threadIdx.x]; __syncthreads();
  o[threadIdx.x] = atomicExch(s + threadIdx.x, 5) + s[threadIdx.x] * 3;
}
//! fill=0 grid=2 block=64
KERNEL compare_and_swap(u32* o, const u32* a) {
  u32 old = o[0], seen; do { seen = old; old = atomicCAS(o, seen, seen + (a[index()] & 0xFF) * 3); } while (old != seen);
  atomicCAS(o + 1 + index() % 100, 0, index() % 100 + 7);
}
//! fill=0 grid=2 block=64
KERNEL compare_and_swap_wide(u64* o, const u64* a) {
  u64 old = o[0], seen; do { seen = old; old = atomicCAS(o, seen, seen ^ a[index()]); } while (old != seen);
}
//! fill=0 grid=2 block=64
KERNEL compare_and_swap_short(u16* o, const u16* a) {
  u16 old = o[0], seen; do { seen = old; old = atomicCAS(o, seen, (u16)(seen + a[index()])); } while (old != seen);
}
//! fill=0 grid=1 block=128
KERNEL float_sums(f32* o, const u16* a) {
  atomicAdd(o, (f32)(a[threadIdx.x] >> 4)); atomicAdd(o + 1 + (threadIdx.x & 7), 0.25f * (a[threadIdx.x] >> 8));
}
//! fill=0 grid=1 block=128
KERNEL double_sums(f64* o, const u32* a) { atomicAdd(o, (f64)a[threadIdx.x]); atomicAdd(o + 1, 0.5 * a[threadIdx.x]); }
//! grid=1 block=128
KERNEL float_sum_each(f32* o, const f32* a, const f32* b) {
  o[threadIdx.x] = a[threadIdx.x]; asm volatile("red.global.add.f32 [%0], %1;" :: "l"(o + threadIdx.x), "f"(b[threadIdx.x]) : "memory");
}
//! grid=1 block=128
KERNEL float_sum_shared(f32* o, const f32* a, const f32* b) {
  __shared__ f32 s[128]; s[threadIdx.x] = a[threadIdx.x]; const f32 old = atomicAdd(s + threadIdx.x, b[threadIdx.x]);
  o[threadIdx.x] = bits(old) == bits(a[threadIdx.x]) ? s[threadIdx.x] : 77;
}
//! grid=1 block=64
KERNEL half_sums(u32* o, const u32* a, const u32* b) {
  o[threadIdx.x] = a[threadIdx.x]; u32 q;
  asm volatile("atom.global.add.noftz.f16x2 %0, [%1], %2;" : "=r"(q) : "l"(o + threadIdx.x), "r"(b[threadIdx.x]) : "memory");
}
//! grid=1 block=64
KERNEL half_sum(f16* o, const f16* a, const f16* b) {
  o[threadIdx.x] = a[threadIdx.x]; u16 q;
  asm volatile("atom.global.add.noftz.f16 %0, [%1], %2;" : "=h"(q) : "l"(o + threadIdx.x), "h"(b[threadIdx.x].bits) : "memory");
}
//! grid=1 block=64
KERNEL bfloat_sums(u32* o, const u32* a, const u32* b) {
  o[threadIdx.x] = a[threadIdx.x]; u32 q;
  asm volatile("atom.global.add.noftz.bf16x2 %0, [%1], %2;" : "=r"(q) : "l"(o + threadIdx.x), "r"(b[threadIdx.x]) : "memory");
}
//! fill=0 grid=2 block=64 per=8
KERNEL scopes(u32* o, const u32* a) {
  const u32 x = a[index()]; u32 q;
#define SCOPE(n, how) asm volatile("atom." how ".global.add.u32 %0, [%1], %2;" : "=r"(q) : "l"(o + n), "r"(x) : "memory");
  SCOPE(0, "relaxed.cta") SCOPE(0, "relaxed.gpu") SCOPE(1, "acquire.gpu") SCOPE(2, "release.sys") SCOPE(3, "acq_rel.gpu")
  atomicAdd_system(o + 4, x); atomicMax_system(o + 6, x);
  asm volatile("red.release.gpu.global.or.b32 [%0], %1;" :: "l"(o + 7), "r"(x) : "memory");
}
//! grid=2 block=64 fill=0
KERNEL shared_histogram(u32* o, const u8* a) {
  __shared__ u32 s[32]; if (threadIdx.x < 32) s[threadIdx.x] = 0; __syncthreads();
  atomicAdd_block(s + (a[index()] & 31), 1); atomicMax_block(s + 7, 2u); __syncthreads();
  if (threadIdx.x < 32) atomicAdd(o + threadIdx.x, s[threadIdx.x]);
}
//! grid=1 block=64
KERNEL shared_of_all_kinds(u32* o, const u32* a) {
  __shared__ u32 s[8]; if (threadIdx.x < 8) s[threadIdx.x] = threadIdx.x == 4 ? ~0u : 0; __syncthreads(); const u32 x = a[threadIdx.x];
  atomicAdd(s, x); atomicXor(s + 1, x); atomicOr(s + 2, x & 0xF0F); atomicMax(s + 3, x); atomicMin(s + 4, x | 3); atomicInc(s + 5, 9);
  atomicMax((s32*)s + 6, (s32)x); __syncthreads(); o[threadIdx.x] = s[threadIdx.x & 7];
}
//! grid=4 block=64 fill=0
KERNEL last_block(u32* o, const u32* a) {
  __shared__ bool last; atomicAdd(o + 1, a[index()] & 255); __threadfence(); __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(o, 1) == gridDim.x - 1;
  __syncthreads(); if (last && threadIdx.x == 0) o[2] = atomicAdd(o + 1, 0) * 2;
}
//! grid=1 block=64 fill=0
KERNEL tickets(u32* o, const u32* a) { o[1 + atomicAdd(o + 127 - 64, 1) % 32] = 1; atomicOr(o + 50, a[threadIdx.x] & 12); }
//! grid=1 block=64 fill=0
KERNEL spin_lock(u32* o, const u32* a) {
  __shared__ u32 lock, sum; if (threadIdx.x == 0) lock = sum = 0; __syncthreads();
  for (bool done = false; !done;) if (atomicCAS(&lock, 0, 1) == 0) {
    volatile u32* p = &sum; *p = *p + a[threadIdx.x]; __threadfence_block(); atomicExch(&lock, 0); done = true;
  }
  __syncthreads(); o[threadIdx.x] = sum;
}
//! grid=1 block=64
KERNEL increment_edges(u32* o, const u32* a, const u32* b) { o[threadIdx.x] = a[threadIdx.x]; atomicInc(o + threadIdx.x, b[threadIdx.x]); }
//! grid=1 block=64
KERNEL decrement_edges(u32* o, const u32* a, const u32* b) { o[threadIdx.x] = a[threadIdx.x]; atomicDec(o + threadIdx.x, b[threadIdx.x]); }
