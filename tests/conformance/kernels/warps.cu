// What the lanes of a warp tell each other, and barriers.
//! per=4
KERNEL shuffle(u32* o, const u32* a, const u32* b) {
  const u32 i = index(); u32* r = o + 4 * i;
  r[0] = __shfl_sync(~0u, a[i], b[i]); r[1] = __shfl_up_sync(~0u, a[i], 3); r[2] = __shfl_down_sync(~0u, a[i], 5);
  r[3] = __shfl_xor_sync(~0u, a[i], 9);
}
//! per=4
KERNEL shuffle_parts(u32* o, const u32* a, const u32* b) {
  const u32 i = index(); u32* r = o + 4 * i;
  r[0] = __shfl_sync(~0u, a[i], b[i], 8); r[1] = __shfl_up_sync(~0u, a[i], 2, 4); r[2] = __shfl_down_sync(~0u, a[i], 1, 16);
  r[3] = __shfl_xor_sync(~0u, a[i], 16, 8);
}
//! per=2
KERNEL shuffle_wide(u64* o, const u64* a, const f64* b) {
  const u32 i = index(); o[2 * i] = __shfl_xor_sync(~0u, a[i], 7); o[2 * i + 1] = bits(__shfl_down_sync(~0u, b[i], 4));
}
//! per=4 bounds=0:40
KERNEL shuffle_raw(u32* o, const u32* a, const u32* lane, const u32* mask) {
  const u32 i = index(); u32 q, p; u32* r = o + 4 * i;
#define SHUFFLE(n, mode, c) asm volatile("{ .reg .pred p; shfl.sync." mode ".b32 %0|p, %2, %3, %4, -1; selp.u32 %1, 1, 0, p; }" \
  : "=r"(q), "=r"(p) : "r"(a[i] * 7), "r"(lane[i]), "r"(c)); r[n] = q * 2 + p;
  SHUFFLE(0, "idx", 31) SHUFFLE(1, "up", 0) SHUFFLE(2, "down", 0x181F) SHUFFLE(3, "bfly", mask[i] & 31)
}
//! per=5
KERNEL votes(u32* o, const u32* a) {
  const u32 i = index(); u32* r = o + 5 * i; const bool p = a[i] & 1;
  r[0] = __ballot_sync(~0u, p); r[1] = __any_sync(~0u, a[i] == 7); r[2] = __all_sync(~0u, a[i] < 0xFFFFFFF0u);
  asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.uni.pred q, p, -1; selp.u32 %0, 1, 0, q; }"
               : "=r"(r[3]) : "r"(threadIdx.x >> 5));
  r[4] = __popc(__ballot_sync(~0u, a[i] > 100));
}
//! per=2
KERNEL votes_of_some(u32* o, const u32* a) {
  const u32 i = index(), lane = threadIdx.x & 31; u32* r = o + 2 * i; r[0] = r[1] = 0;
  if (lane < 13) r[0] = __ballot_sync(0x1FFF, a[i] & 2);
  else { r[0] = __any_sync(0xFFFFE000, a[i] == 3); r[1] = __shfl_sync(0xFFFFE000, a[i], 20); }
}
//! per=3 bounds=0:5
KERNEL matches(u32* o, const u32* a) {
  const u32 i = index(); s32 same; u32* r = o + 3 * i;
  r[0] = __match_any_sync(~0u, a[i]); r[1] = __match_all_sync(~0u, a[i] >> 3, &same); r[2] = same + 2 * __match_any_sync(~0u, (u64)a[i] << 33);
}
//! per=6
KERNEL reduce(u32* o, const u32* a) {
  const u32 i = index(); u32* r = o + 6 * i;
  r[0] = __reduce_add_sync(~0u, a[i]); r[1] = __reduce_min_sync(~0u, a[i]); r[2] = __reduce_max_sync(~0u, (s32)a[i]);
  r[3] = __reduce_and_sync(~0u, a[i] | 7); r[4] = __reduce_or_sync(~0u, a[i] & 0xFF00); r[5] = __reduce_xor_sync(~0u, a[i]);
}
KERNEL reduce_by_parity(u32* o, const u32* a) {
  const u32 i = index(); o[i] = threadIdx.x & 1 ? __reduce_add_sync(0xAAAAAAAA, a[i]) : __reduce_max_sync(0x55555555, a[i]);
}
KERNEL warp_sum(f32* o, const u16* a) {
  f32 x = a[index()]; for (u32 d = 16; d; d >>= 1) x += __shfl_xor_sync(~0u, x, d); o[index()] = x;
}
KERNEL warp_scan(u32* o, const u32* a) {
  u32 x = a[index()]; for (u32 d = 1; d < 32; d *= 2) { const u32 y = __shfl_up_sync(~0u, x, d); if ((threadIdx.x & 31) >= d) x += y; }
  o[index()] = x;
}
//! per=2
KERNEL active(u32* o, const u8* a) {
  u32 seen = 0; for (u32 k = 0; k < (a[index()] & 3); ++k) seen += __popc(__activemask()) > 0;
  __syncwarp(); o[2 * index()] = seen; o[2 * index() + 1] = __activemask();
}
KERNEL syncwarp_exchange(u32* o, const u32* a) {
  __shared__ u32 s[64]; s[threadIdx.x] = a[index()]; __syncwarp(); u32 x = s[threadIdx.x ^ 3]; __syncwarp();
  if (threadIdx.x & 1) s[threadIdx.x] = x; else s[threadIdx.x] = ~x;
  __syncwarp(); o[index()] = s[threadIdx.x ^ 17];
}
//! per=3 block=96
KERNEL barriers_that_count(u32* o, const u32* a) {
  const u32 i = index(); u32* r = o + 3 * i;
  r[0] = __syncthreads_count(a[i] & 1); r[1] = __syncthreads_and(a[i] != 5); r[2] = __syncthreads_or(a[i] == 0x55);
}
//! block=128 grid=1
KERNEL named_barriers(u32* o, const u32* a) {
  __shared__ u32 s[128]; const u32 t = threadIdx.x; s[t] = a[t];
  if (t < 64) { asm volatile("bar.sync 1, 64;" ::: "memory"); o[t] = s[t ^ 33]; }
  else { asm volatile("bar.sync 2, 64;" ::: "memory"); o[t] = s[64 + (t ^ 41) % 64] + 1; }
}
//! block=64 grid=1
KERNEL arrive_and_wait(u32* o, const u32* a) {
  __shared__ u32 s[32]; const u32 t = threadIdx.x;
  if (t < 32) { s[t] = a[t] * 3; __threadfence_block(); asm volatile("bar.arrive 3, 64;" ::: "memory"); o[t] = 1; }
  else { asm volatile("bar.sync 3, 64;" ::: "memory"); o[t] = s[t - 32]; }
}
//! block=40 grid=3
KERNEL ragged_warps(u32* o, const u32* a) {
  const u32 mask = __activemask(); o[index()] = __ballot_sync(mask, a[index()] & 4) ^ mask << 1;
}
KERNEL elected(u32* o) {
  u32 p; asm volatile("{ .reg .pred p; .reg .b32 l; elect.sync l|p, -1; selp.u32 %0, 1, 0, p; }" : "=r"(p)); o[index()] = p;
}
KERNEL bitonic_sort(u32* o, const u32* a) {
  u32 x = a[index()]; const u32 lane = threadIdx.x & 31;
  for (u32 k = 2; k <= 32; k *= 2) for (u32 j = k / 2; j; j /= 2) {
    const u32 y = __shfl_xor_sync(~0u, x, j); const bool up = !(lane & k), low = !(lane & j); x = up == low ? min(x, y) : max(x, y);
  }
  o[index()] = x;
}
