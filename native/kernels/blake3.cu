// The BLAKE3 hash of each of many chunks of device memory (docs/design/device-hash.md).
//
// `tiles` gives a thread to each leaf (1024 bytes) and a block of threads to each tile (128 leaves of one chunk), and
// joins the tile's leaves to one value. `chunks` joins the tiles of a chunk, where there is more than one. Both launch
// with `TILE_LEAVES` threads. gen/kernels.py compiles this file; src/torpor/driver/hashing.py launches it.

using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long long;

#define INLINE __device__ __forceinline__

namespace {

enum : u32 {
  LEAF = 1024,
  BLOCK = 64,
  TILE_LEAVES = 128,
  TILE = TILE_LEAVES * LEAF,
  WARPS = TILE_LEAVES / 32,
  WARP_BYTES = 32 * LEAF,
  ROW = 5,  // pieces of 16 bytes
  STAGE = 32 * ROW,
};
enum : u32 { START = 1, END = 2, PARENT = 4, ROOT = 8 };

// `length` bytes at `address`, 1 to 128 tiles of them.
struct Chunk {
  u64 address;
  u64 length;
};

// Chaining values of a tree's nodes, word by word, so that neighbours lie in different banks.
using Nodes = u32[8][TILE_LEAVES];

INLINE void set_start(u32 (&value)[8]) {
  constexpr u32 start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
#pragma unroll
  for (u32 i = 0; i < 8; ++i) value[i] = start[i];
}

// Rotations by whole bytes are byte permutations; both kinds are one instruction.
INLINE void mix(u32& a, u32& b, u32& c, u32& d, u32 x, u32 y) {
  a = a + b + x;
  d = __byte_perm(d ^ a, 0, 0x1032);
  c = c + d;
  b = __funnelshift_r(b ^ c, b ^ c, 12);
  a = a + b + y;
  d = __byte_perm(d ^ a, 0, 0x0321);
  c = c + d;
  b = __funnelshift_r(b ^ c, b ^ c, 7);
}

// One compression of 16 words into `value`. The message is permuted by renaming registers, at compile time.
INLINE void compress(u32 (&value)[8], u32 (&message)[16], u32 counter, u32 length, u32 flags) {
  constexpr u32 order[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
  u32 upper[8];
  set_start(upper);
  u32 v[16] = {value[0], value[1], value[2], value[3], value[4], value[5], value[6], value[7],
               upper[0], upper[1], upper[2], upper[3], counter,  0,        length,   flags};
#pragma unroll
  for (u32 round = 0; round < 7; ++round) {
    u32(&m)[16] = message;
    mix(v[0], v[4], v[8], v[12], m[0], m[1]);
    mix(v[1], v[5], v[9], v[13], m[2], m[3]);
    mix(v[2], v[6], v[10], v[14], m[4], m[5]);
    mix(v[3], v[7], v[11], v[15], m[6], m[7]);
    mix(v[0], v[5], v[10], v[15], m[8], m[9]);
    mix(v[1], v[6], v[11], v[12], m[10], m[11]);
    mix(v[2], v[7], v[8], v[13], m[12], m[13]);
    mix(v[3], v[4], v[9], v[14], m[14], m[15]);
    u32 next[16];
#pragma unroll
    for (u32 i = 0; i < 16; ++i) next[i] = m[order[i]];
#pragma unroll
    for (u32 i = 0; i < 16; ++i) m[i] = next[i];
  }
#pragma unroll
  for (u32 i = 0; i < 8; ++i) value[i] = v[i] ^ v[i + 8];
}

INLINE void put(Nodes& nodes, u32 at, const u32 (&value)[8]) {
#pragma unroll
  for (u32 i = 0; i < 8; ++i) nodes[i][at] = value[i];
}

// Joins the first `count` nodes in pairs until one is left, in place; an odd last one goes up as it is, which gives the
// tree that BLAKE3 prescribes for any number of leaves. All threads of the block take part.
INLINE void join(Nodes& nodes, u32 count, bool root) {
  const u32 thread = threadIdx.x;
  __syncthreads();
  while (count > 1) {
    const u32 pairs = count / 2, odd = count & 1;
    u32 value[8], message[16];
    if (thread < pairs) {
#pragma unroll
      for (u32 i = 0; i < 8; ++i) {
        const uint2 both = reinterpret_cast<const uint2*>(nodes[i])[thread];
        message[i] = both.x;
        message[i + 8] = both.y;
      }
    } else if (odd && thread == pairs) {
#pragma unroll
      for (u32 i = 0; i < 8; ++i) value[i] = nodes[i][count - 1];
    }
    __syncthreads();
    if (thread < pairs) {
      set_start(value);
      compress(value, message, 0, BLOCK, PARENT | (root && count == 2 ? ROOT : 0));
    }
    if (thread < pairs + odd) put(nodes, thread, value);
    __syncthreads();
    count = pairs + odd;
  }
}

// 16 bytes at `source` of which `valid` (may be more) are there; the others are zero.
INLINE uint4 gather(const u8* source, u32 valid) {
  if (valid >= 16 && reinterpret_cast<u64>(source) % 16 == 0) return *reinterpret_cast<const uint4*>(source);
  u32 words[4] = {0, 0, 0, 0};
#pragma unroll
  for (u32 i = 0; i < 16; ++i) {
    if (i < valid) words[i / 4] |= static_cast<u32>(source[i]) << (i % 4 * 8);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// From compute capability 8.0 on copies to shared memory run beside the arithmetic, in groups.
INLINE void copy16(uint4* to, const u8* from) {
#if __CUDA_ARCH__ >= 800
  const u32 shared = static_cast<u32>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
#else
  *to = *reinterpret_cast<const uint4*>(from);
#endif
}

INLINE void end_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// All groups but the newest are there.
INLINE void await_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

// What a warp reads: 32 leaves, each a row, of which one block per row is staged at a time, the next one while this one
// is hashed. Four neighbouring lanes fetch one row's block. Rows are a piece longer than a block, and the order of the
// rows is such that eight lanes meet different banks both when they write and when they read.
struct Rows {
  const u8* source;
  u32 length;
  bool plain;  // whole leaves whose pieces are aligned
  uint4* stages;

  INLINE void fetch(u32 step, u32 lane) const {
    const u32 group = lane / 4, number = lane % 4, first = group / 2 + group % 2 * 4;
    const u32 within = first * LEAF + number * 16 + step * BLOCK;
    uint4* const to = stages + step % 2 * STAGE + first * ROW + number;
    if (plain) {
#pragma unroll
      for (u32 i = 0; i < 32; i += 8) copy16(to + i * ROW, source + within + i * LEAF);
    } else {
#pragma unroll 1
      for (u32 i = 0; i < 32; i += 8) {
        const u32 at = within + i * LEAF;
        to[i * ROW] = gather(source + at, at < length ? length - at : 0);
      }
    }
  }

  INLINE void read(u32 step, u32 lane, u32 (&message)[16]) const {
    const uint4* from = stages + step % 2 * STAGE + lane * ROW;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const uint4 words = from[i];
      message[4 * i] = words.x;
      message[4 * i + 1] = words.y;
      message[4 * i + 2] = words.z;
      message[4 * i + 3] = words.w;
    }
  }
};

// The chaining value of this lane's leaf, of a warp that has at least one byte. `index` is the leaf's in its chunk.
INLINE void hash_leaf(const Rows& rows, u32 index, bool root, u32 (&value)[8]) {
  const u32 lane = threadIdx.x % 32, begin = lane * LEAF;
  const u32 length = rows.length > begin ? min(rows.length - begin, LEAF) : 0;
  const u32 blocks = (length + BLOCK - 1) / BLOCK, rest = length - (blocks - 1) * BLOCK;
  const u32 steps = (min(rows.length, LEAF) + BLOCK - 1) / BLOCK;
  const u32 end = END | (root ? ROOT : 0);
  u32 flags = START;
  set_start(value);
  rows.fetch(0, lane);
  end_group();
#pragma unroll 1
  for (u32 step = 0; step < steps; ++step) {
    if (step + 1 < steps) rows.fetch(step + 1, lane);
    end_group();
    await_group();
    __syncwarp();
    u32 message[16];
    rows.read(step, lane, message);
    __syncwarp();
    const bool last = step + 1 == blocks;
    if (step < blocks) compress(value, message, index, last ? rest : BLOCK, last ? flags | end : flags);
    flags = 0;
  }
}

}  // namespace

// `1 << tile_bits` blocks for each of `all`; `values` has as many places of 8 words, `digests` one per chunk. What is
// one tile goes to `digests`.
extern "C" __global__ void __launch_bounds__(TILE_LEAVES, 8)
    torpor_blake3_tiles(const Chunk* all, u32 tile_bits, u32* values, u32* digests) {
  __shared__ uint4 stages[WARPS][2 * STAGE];
  __shared__ alignas(8) Nodes nodes;
  const u32 number = blockIdx.x >> tile_bits, tile = blockIdx.x & ((1u << tile_bits) - 1);
  const Chunk chunk = all[number];
  const u64 begin = static_cast<u64>(tile) * TILE;
  if (begin >= chunk.length) return;
  const u32 length = static_cast<u32>(min(chunk.length - begin, static_cast<u64>(TILE)));
  const bool only = chunk.length <= TILE;
  const u32 leaves = (length + LEAF - 1) / LEAF;

  const u32 warp = threadIdx.x / 32, before = warp * WARP_BYTES;
  if (before < length) {
    const u8* source = reinterpret_cast<const u8*>(chunk.address + begin + before);
    const u32 mine = min(length - before, WARP_BYTES);
    const bool plain = mine == WARP_BYTES && reinterpret_cast<u64>(source) % 16 == 0;
    const Rows rows{source, mine, plain, stages[warp]};
    u32 value[8];
    hash_leaf(rows, tile * TILE_LEAVES + threadIdx.x, only && leaves == 1, value);
    put(nodes, threadIdx.x, value);
  }
  join(nodes, leaves, only);
  u32* to = only ? digests + static_cast<u64>(number) * 8 : values + static_cast<u64>(blockIdx.x) * 8;
  if (threadIdx.x < 8) to[threadIdx.x] = nodes[threadIdx.x][0];
}

// One block for each chunk.
extern "C" __global__ void __launch_bounds__(TILE_LEAVES)
    torpor_blake3_chunks(const Chunk* all, u32 tile_bits, const u32* values, u32* digests) {
  __shared__ alignas(8) Nodes nodes;
  const u64 length = all[blockIdx.x].length;
  if (length <= TILE) return;
  const u32 tiles = static_cast<u32>((length + TILE - 1) / TILE);
  const u32* from = values + (static_cast<u64>(blockIdx.x) << tile_bits) * 8;
  for (u32 i = threadIdx.x; i < tiles * 8; i += blockDim.x) nodes[i % 8][i / 8] = from[i];
  join(nodes, tiles, true);
  if (threadIdx.x < 8) digests[static_cast<u64>(blockIdx.x) * 8 + threadIdx.x] = nodes[threadIdx.x][0];
}
