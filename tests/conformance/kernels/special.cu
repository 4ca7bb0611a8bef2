// Special registers, and how a grid is laid out.
//! per=8 block=4.3.2 grid=2.2.2
KERNEL places(u32* o) {
  const u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const u32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); u32* r = o + 8 * (block * 24 + thread);
  r[0] = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16; r[1] = blockIdx.x | blockIdx.y << 8 | blockIdx.z << 16;
  r[2] = blockDim.x | blockDim.y << 8 | blockDim.z << 16; r[3] = gridDim.x | gridDim.y << 8 | gridDim.z << 16;
  asm("mov.u32 %0, %%laneid;" : "=r"(r[4])); r[5] = warpSize; r[6] = block; r[7] = thread;
}
//! per=5
KERNEL lane_masks(u32* o) {
  u32* r = o + 5 * index();
  asm("mov.u32 %0, %%lanemask_eq;" : "=r"(r[0])); asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r[1]));
  asm("mov.u32 %0, %%lanemask_le;" : "=r"(r[2])); asm("mov.u32 %0, %%lanemask_gt;" : "=r"(r[3]));
  asm("mov.u32 %0, %%lanemask_ge;" : "=r"(r[4]));
}
//! per=3 shared=640
KERNEL shared_sizes(u32* o) {
  extern __shared__ u32 dynamic[]; __shared__ u32 s[5]; s[threadIdx.x % 5] = 1; dynamic[threadIdx.x] = s[1]; u32* r = o + 3 * index();
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(r[0])); r[1] = (u32)(__cvta_generic_to_shared(dynamic) - __cvta_generic_to_shared(s));
  r[2] = dynamic[threadIdx.x];
}
//! per=2
KERNEL time_goes_on(u32* o) {
  const s64 a = clock64(); u64 g, h; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g));
  for (u32 k = 0; k < 50; ++k) asm volatile("" ::: "memory");
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(h)); o[2 * index()] = clock64() > a; o[2 * index() + 1] = h >= g;
}
//! per=2
KERNEL processors(u32* o) {
  u32 id, n; asm volatile("mov.u32 %0, %%smid;" : "=r"(id)); asm volatile("mov.u32 %0, %%nsmid;" : "=r"(n));
  o[2 * index()] = id < n; o[2 * index() + 1] = n;
}
//! per=4 grid=3
KERNEL clusters_of_one(u32* o) {
  u32* r = o + 4 * index(); asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(r[0])); asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(r[1]));
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(r[2])); asm("mov.u32 %0, %%nclusterid.x;" : "=r"(r[3]));
}
//! block=1024 grid=1
KERNEL full_block(u32* o) { o[threadIdx.x] = threadIdx.x * threadIdx.x; }
//! block=1 grid=200
KERNEL many_blocks(u32* o) { o[blockIdx.x] = blockIdx.x ^ gridDim.x; }
//! block=32.1.2 grid=1.3.2 per=1
KERNEL flat_index(u32* o) {
  o[(blockIdx.y + 3 * blockIdx.z) * 64 + threadIdx.z * 32 + threadIdx.x] = blockIdx.y * 1000 + blockIdx.z * 100 + threadIdx.z * 50 + threadIdx.x;
}
