// Cooperative grids: all blocks run at the same time and meet.
DEVICE void meet(volatile u32* count, u32 goal) {
  __syncthreads(); if (threadIdx.x == 0) { __threadfence(); atomicAdd((u32*)count, 1); while (*count < goal); __threadfence(); } __syncthreads();
}
//! cooperative fill=0 grid=8 block=32
KERNEL neighbours_meet(u32* o, const u32* a) {
  __shared__ u32 unused; u32* count = o + 255; u32* mine = o + blockIdx.x * 32; unused = 0;
  if (threadIdx.x < 31) mine[threadIdx.x] = a[index()]; meet(count, 8);
  const u32 other = o[(blockIdx.x + 1) % 8 * 32 + threadIdx.x % 31]; meet(count, 16);
  if (threadIdx.x < 31) mine[threadIdx.x] += other; if (index() == 254) o[254] = 1; meet(count, 24);
  if (index() == 0) *count = 99;
}
//! cooperative fill=0 grid=4 block=64
KERNEL relaxation(u32* o, const u32* a) {
  u32* count = o; const u32 i = index(); if (i) o[i] = a[i] & 0xFFFF; meet(count, 4);
  for (u32 k = 1; k < 12; ++k) {
    const u32 left = i > 1 ? o[i - 1] : 0, right = i < 255 ? o[i + 1] : 0; meet(count, 8 * k); if (i) o[i] = (left + 2 * o[i] + right) / 4 + k; meet(count, 8 * k + 4);
  }
  if (i == 0) *count = 1;
}
