// Operations on single bits and bytes.
//! per=8
KERNEL counts(u32* o, const u32* a, const u64* b) {
  const u32 i = index(); u32* r = o + 8 * i;
  r[0] = __popc(a[i]); r[1] = __clz(a[i]); r[2] = __brev(a[i]); r[3] = __ffs(a[i]);
  r[4] = __popcll(b[i]); r[5] = __clzll(b[i]); r[6] = __ffsll(b[i]); r[7] = (u32)(__brevll(b[i]) >> 7);
}
//! per=4 bounds=0:300
KERNEL extract_narrow(u32* o, const u32* position, const u32* length, const u32* value) {
  const u32 i = index(), x = value[i] * 2654435761u; u32 q; u64 w; u32* r = o + 4 * i;
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(q) : "r"(x), "r"(position[i]), "r"(length[i])); r[0] = q;
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(q) : "r"(x), "r"(position[i]), "r"(length[i])); r[1] = q;
  const u64 y = x * 0x9E3779B97F4A7C15ull;
  asm("bfe.u64 %0, %1, %2, %3;" : "=l"(w) : "l"(y), "r"(position[i]), "r"(length[i])); r[2] = (u32)(w ^ w >> 32);
  asm("bfe.s64 %0, %1, %2, %3;" : "=l"(w) : "l"(y), "r"(position[i]), "r"(length[i])); r[3] = (u32)(w ^ w >> 32);
}
//! per=4
KERNEL extract_edges(u32* o, const u32* x, const u32* position, const u32* length) {
  const u32 i = index(); u32 q; u32* r = o + 4 * i; const u32 p = position[i], n = length[i];
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(q) : "r"(x[i]), "r"(p), "r"(n)); r[0] = q;
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(q) : "r"(x[i]), "r"(p), "r"(n)); r[1] = q;
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(q) : "r"(x[i]), "r"(p & 31), "r"(n & 31)); r[2] = q;
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(q) : "r"(x[i]), "r"(p & 31), "r"(n & 63)); r[3] = q;
}
//! per=3
KERNEL insert(u32* o, const u32* x, const u32* y, const u32* position, const u32* length) {
  const u32 i = index(); u32 q; u32* r = o + 3 * i;
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(q) : "r"(x[i]), "r"(y[i]), "r"(position[i]), "r"(length[i])); r[0] = q;
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(q) : "r"(x[i]), "r"(y[i]), "r"(position[i] & 31), "r"(length[i] & 31));
  r[1] = q;
  asm("bfi.b32 %0, %1, %2, 4, 12;" : "=r"(q) : "r"(x[i]), "r"(y[i])); r[2] = q;
}
//! per=2
KERNEL insert64(u64* o, const u64* x, const u64* y, const u32* position, const u32* length) {
  const u32 i = index(); u64 q; u64* r = o + 2 * i;
  asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(q) : "l"(x[i]), "l"(y[i]), "r"(position[i]), "r"(length[i])); r[0] = q;
  asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(q) : "l"(x[i]), "l"(y[i]), "r"(position[i] & 63), "r"(length[i] & 63));
  r[1] = q;
}
//! per=7
KERNEL permute(u32* o, const u32* a, const u32* b, const u32* c) {
  const u32 i = index(); u32 q; u32* r = o + 7 * i;
  r[0] = __byte_perm(a[i], b[i], c[i]);
#define MODE(n, m) asm("prmt.b32." m " %0, %1, %2, %3;" : "=r"(q) : "r"(a[i]), "r"(b[i]), "r"(c[i])); r[n] = q;
  MODE(1, "f4e") MODE(2, "b4e") MODE(3, "rc8") MODE(4, "ecl") MODE(5, "ecr") MODE(6, "rc16")
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(q) : "r"(a[i]), "r"(b[i]), "r"(c[i])); r[0] ^= q << 1;
}
//! per=4
KERNEL funnel_shifts(u32* o, const u32* a, const u32* b, const u32* c) {
  const u32 i = index(); u32* r = o + 4 * i;
  r[0] = __funnelshift_l(a[i], b[i], c[i]); r[1] = __funnelshift_lc(a[i], b[i], c[i]);
  r[2] = __funnelshift_r(a[i], b[i], c[i]); r[3] = __funnelshift_rc(a[i], b[i], c[i]);
}
//! per=6
KERNEL logic3(u32* o, const u32* a, const u32* b, const u32* c) {
  const u32 i = index(), x = a[i], y = b[i], z = c[i]; u32 q; u32* r = o + 6 * i;
  r[0] = (x & y) | (~x & z); r[1] = x ^ y ^ z; r[2] = (x & y) | (y & z) | (x & z);
#define TABLE(n, t) asm("lop3.b32 %0, %1, %2, %3, " #t ";" : "=r"(q) : "r"(x), "r"(y), "r"(z)); r[n] = q;
  TABLE(3, 0x1D) TABLE(4, 0x80) TABLE(5, 0xFE)
}
//! per=6
KERNEL dots(u32* o, const u32* a, const u32* b, const u32* c) {
  const u32 i = index(); u32 q; u32* r = o + 6 * i;
  r[0] = __dp4a((s32)a[i], (s32)b[i], (s32)c[i]); r[1] = __dp4a(a[i], b[i], c[i]);
  r[2] = __dp2a_lo((s32)a[i], (s32)b[i], (s32)c[i]); r[3] = __dp2a_hi(a[i], b[i], c[i]);
  asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(q) : "r"(a[i]), "r"(b[i]), "r"(c[i])); r[4] = q;
  asm("dp2a.hi.u32.s32 %0, %1, %2, %3;" : "=r"(q) : "r"(a[i]), "r"(b[i]), "r"(c[i])); r[5] = q;
}
//! per=4
KERNEL find_highest(u32* o, const u32* a, const u64* b) {
  const u32 i = index(); u32 q; u32* r = o + 4 * i;
  asm("bfind.u32 %0, %1;" : "=r"(q) : "r"(a[i])); r[0] = q;
  asm("bfind.s32 %0, %1;" : "=r"(q) : "r"(a[i])); r[1] = q;
  asm("bfind.shiftamt.u64 %0, %1;" : "=r"(q) : "l"(b[i])); r[2] = q;
  asm("bfind.shiftamt.s64 %0, %1;" : "=r"(q) : "l"(b[i])); r[3] = q;
}
//! per=3 bounds=0:31
KERNEL find_nth(u32* o, const u32* position, const s32* seed) {
  const u32 i = index(), x = (seed[i] + 3) * 2654435761u; u32* r = o + 3 * i;
  r[0] = __fns(x, position[i], 1); r[1] = __fns(x, position[i], -2); r[2] = __fns(x, position[i], (s32)(i % 9) - 4);
}
//! per=4
KERNEL masks(u32* o, const u32* a, const u32* b) {
  const u32 i = index(); u32 q; u32* r = o + 4 * i;
  asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(q) : "r"(a[i]), "r"(b[i])); r[0] = q;
  asm("bmsk.wrap.b32 %0, %1, %2;" : "=r"(q) : "r"(a[i]), "r"(b[i])); r[1] = q;
  asm("szext.clamp.s32 %0, %1, %2;" : "=r"(q) : "r"(a[i]), "r"(b[i])); r[2] = q;
  asm("szext.wrap.u32 %0, %1, %2;" : "=r"(q) : "r"(a[i]), "r"(b[i])); r[3] = q;
}
//! per=3
KERNEL conditional_not(u32* o, const u32* a, const u64* b) {
  const u32 i = index(); u32 q; u64 w; u32* r = o + 3 * i;
  asm("cnot.b32 %0, %1;" : "=r"(q) : "r"(a[i])); r[0] = q;
  asm("cnot.b64 %0, %1;" : "=l"(w) : "l"(b[i])); r[1] = (u32)w;
  asm("not.b64 %0, %1;" : "=l"(w) : "l"(b[i])); r[2] = (u32)(w >> 32);
}
//! per=8
KERNEL bytes_in_words(u32* o, const u32* a, const u32* b) {
  const u32 i = index(), x = a[i], y = b[i]; u32* r = o + 8 * i;
  r[0] = __vadd4(x, y); r[1] = __vsub2(x, y); r[2] = __vabsdiffu4(x, y); r[3] = __vmaxs4(x, y);
  r[4] = __vminu2(x, y); r[5] = __vcmpgtu4(x, y); r[6] = __vaddss2(x, y); r[7] = __vavgu4(x, y);
}
//! per=8
KERNEL more_bytes_in_words(u32* o, const u32* a, const u32* b) {
  const u32 i = index(), x = a[i], y = b[i]; u32* r = o + 8 * i;
  r[0] = __vsubus4(x, y); r[1] = __vnegss4(x); r[2] = __vabsss2(x); r[3] = __vsads4(x, y);
  r[4] = __vseteq2(x, y); r[5] = __vcmples4(x, y); r[6] = __vhaddu2(x, y); r[7] = __vabsdiffs2(x, y);
}
KERNEL morton(u64* o, const u32* a, const u32* b) {
  u64 r = 0;
  for (u32 k = 0; k < 32; ++k) r |= (u64)(a[index()] >> k & 1) << 2 * k | (u64)(b[index()] >> k & 1) << (2 * k + 1);
  o[index()] = r;
}
KERNEL checksum(u32* o, const u32* a) {
  u32 crc = ~0u;
  for (u32 k = 0; k < 8; ++k) {
    crc ^= a[(index() + k) % 128];
    for (u32 bit = 0; bit < 32; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
  }
  o[index()] = ~crc;
}
