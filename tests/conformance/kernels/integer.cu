//! options --device-int128
// Integer arithmetic of every width: wrap-around, division by zero, products and their upper halves.
//! per=8
KERNEL sums32(u32* o, const u32* a, const u32* b) {
  const u32 i = index(), x = a[i], y = b[i]; u32* r = o + 8 * i;
  r[0] = x + y; r[1] = x - y; r[2] = x * y; r[3] = __umulhi(x, y); r[4] = __mulhi((s32)x, (s32)y);
  r[5] = x * 7 + y; r[6] = -x; r[7] = ~x + (y ^ x);
}
//! per=6
KERNEL quotients32(u32* o, const u32* a, const u32* b) {
  const u32 i = index(); const u32 x = a[i], y = b[i]; u32* r = o + 6 * i;
  const s32 p = (s32)x, q = p == (s32)0x80000000 && (s32)y == -1 ? 3 : (s32)y;
  r[0] = y ? x / y : 1; r[1] = y ? x % y : 2; r[2] = q ? p / q : 3; r[3] = q ? p % q : 4; r[4] = x / 10; r[5] = p / -7;
}
//! per=4
KERNEL quotients_by_zero(u32* o, const u32* a, const u32* b) {
  const u32 i = index(); u32 q; u32* r = o + 4 * i;
  asm volatile("div.u32 %0, %1, %2;" : "=r"(q) : "r"(a[i]), "r"(b[i] & 1)); r[0] = q;
  asm volatile("rem.u32 %0, %1, %2;" : "=r"(q) : "r"(a[i]), "r"(b[i] & 1)); r[1] = q;
  asm volatile("div.s32 %0, %1, %2;" : "=r"(q) : "r"(a[i]), "r"(b[i] & 1)); r[2] = q;
  asm volatile("rem.s32 %0, %1, %2;" : "=r"(q) : "r"(a[i]), "r"(b[i] & 1)); r[3] = q;
}
//! per=4
KERNEL quotients_by_zero64(u64* o, const u64* a, const u64* b) {
  const u32 i = index(); u64 q; u64* r = o + 4 * i;
  asm volatile("div.u64 %0, %1, %2;" : "=l"(q) : "l"(a[i]), "l"(b[i] & 3)); r[0] = q;
  asm volatile("rem.u64 %0, %1, %2;" : "=l"(q) : "l"(a[i]), "l"(b[i] & 3)); r[1] = q;
  asm volatile("div.s64 %0, %1, %2;" : "=l"(q) : "l"(a[i]), "l"(b[i] & 3)); r[2] = q;
  asm volatile("rem.s64 %0, %1, %2;" : "=l"(q) : "l"(a[i]), "l"(b[i] & 3)); r[3] = q;
}
//! per=2
KERNEL quotients_by_zero16(u16* o, const u16* a, const u16* b) {
  const u32 i = index(); u16 q; u16* r = o + 2 * i;
  asm volatile("div.u16 %0, %1, %2;" : "=h"(q) : "h"(a[i]), "h"((u16)(b[i] & 3))); r[0] = q;
  asm volatile("rem.s16 %0, %1, %2;" : "=h"(q) : "h"(a[i]), "h"((u16)(b[i] & 3))); r[1] = q;
}
//! per=8
KERNEL sums64(u64* o, const u64* a, const u64* b) {
  const u32 i = index(); const u64 x = a[i], y = b[i]; u64* r = o + 8 * i;
  r[0] = x + y; r[1] = x - y; r[2] = x * y; r[3] = __umul64hi(x, y); r[4] = __mul64hi((s64)x, (s64)y);
  r[5] = y ? x / y : 1; r[6] = y ? x % y : 2; r[7] = (s64)y > 1 || (s64)y < -1 ? (s64)x / (s64)y : 3;
}
//! per=6
KERNEL narrow16(s32* o, const s16* a, const s16* b) {
  const u32 i = index(); const s16 x = a[i], y = b[i]; s32* r = o + 6 * i;
  r[0] = (s16)(x + y); r[1] = (s16)(x * y); r[2] = x * y; r[3] = (u16)(x - y); r[4] = y ? x / y : 0; r[5] = (s16)-x;
}
//! per=6
KERNEL narrow8(s32* o, const s8* a, const u8* b) {
  const u32 i = index(); const s8 x = a[i]; const u8 y = b[i]; s32* r = o + 6 * i;
  r[0] = (s8)(x + y); r[1] = (u8)(x * y); r[2] = x * y; r[3] = (s8)(x << 1); r[4] = x >> 3; r[5] = y >> 3;
}
//! per=6
KERNEL shifts32(u32* o, const u32* a, const u32* b) {
  const u32 i = index(), x = a[i], y = b[i]; u32 q; u32* r = o + 6 * i;
  asm("shl.b32 %0, %1, %2;" : "=r"(q) : "r"(x), "r"(y)); r[0] = q;
  asm("shr.u32 %0, %1, %2;" : "=r"(q) : "r"(x), "r"(y)); r[1] = q;
  asm("shr.s32 %0, %1, %2;" : "=r"(q) : "r"(x), "r"(y)); r[2] = q;
  r[3] = x << (y & 31); r[4] = x >> (y & 31); r[5] = (s32)x >> (y & 31);
}
//! per=6
KERNEL shifts64(u64* o, const u64* a, const u32* b) {
  const u32 i = index(), y = b[i]; const u64 x = a[i]; u64 q; u64* r = o + 6 * i;
  asm("shl.b64 %0, %1, %2;" : "=l"(q) : "l"(x), "r"(y)); r[0] = q;
  asm("shr.u64 %0, %1, %2;" : "=l"(q) : "l"(x), "r"(y)); r[1] = q;
  asm("shr.s64 %0, %1, %2;" : "=l"(q) : "l"(x), "r"(y)); r[2] = q;
  r[3] = x << (y & 63); r[4] = x >> (y & 63); r[5] = (s64)x >> (y & 63);
}
//! per=3
KERNEL shifts16(u16* o, const u16* a, const u32* b) {
  const u32 i = index(), y = b[i]; const u16 x = a[i]; u16 q; u16* r = o + 3 * i;
  asm("shl.b16 %0, %1, %2;" : "=h"(q) : "h"(x), "r"(y)); r[0] = q;
  asm("shr.u16 %0, %1, %2;" : "=h"(q) : "h"(x), "r"(y)); r[1] = q;
  asm("shr.s16 %0, %1, %2;" : "=h"(q) : "h"(x), "r"(y)); r[2] = q;
}
//! per=8
KERNEL comparisons(u32* o, const u32* a, const u32* b) {
  const u32 i = index(), x = a[i], y = b[i]; const s32 p = x, q = y; u32* r = o + 8 * i;
  r[0] = x < y; r[1] = p < q; r[2] = x <= y; r[3] = p >= q; r[4] = x == y; r[5] = min(x, y); r[6] = min(p, q);
  r[7] = max(p, q) ^ max(x, y);
}
//! per=6
KERNEL comparisons64(u64* o, const s64* a, const s64* b) {
  const u32 i = index(); const s64 p = a[i], q = b[i]; const u64 x = p, y = q; u64* r = o + 6 * i;
  r[0] = p < q; r[1] = x < y; r[2] = min(p, q); r[3] = max(x, y); r[4] = p != q; r[5] = llabs(p);
}
//! per=8
KERNEL saturating(u32* o, const s32* a, const s32* b) {
  const u32 i = index(); s32 q; const s32 x = a[i], y = b[i]; u32* r = o + 8 * i;
  asm("add.sat.s32 %0, %1, %2;" : "=r"(q) : "r"(x), "r"(y)); r[0] = q;
  asm("sub.sat.s32 %0, %1, %2;" : "=r"(q) : "r"(x), "r"(y)); r[1] = q;
  asm("mad.hi.sat.s32 %0, %1, %2, %1;" : "=r"(q) : "r"(x), "r"(y)); r[2] = q;
  r[3] = __sad(x, y, 11); r[4] = __usad(x, y, 12); r[5] = __hadd(x, y); r[6] = __rhadd(x, y); r[7] = __uhadd(x, y);
}
//! per=6
KERNEL twenty_four_bits(u32* o, const u32* a, const u32* b) {
  const u32 i = index(), x = a[i], y = b[i]; u32 q; u32* r = o + 6 * i;
  r[0] = __mul24(x, y); r[1] = __umul24(x, y);
  asm("mul24.hi.s32 %0, %1, %2;" : "=r"(q) : "r"(x), "r"(y)); r[2] = q;
  asm("mul24.hi.u32 %0, %1, %2;" : "=r"(q) : "r"(x), "r"(y)); r[3] = q;
  asm("mad24.lo.s32 %0, %1, %2, %1;" : "=r"(q) : "r"(x), "r"(y)); r[4] = q;
  asm("mad24.hi.u32 %0, %1, %2, %1;" : "=r"(q) : "r"(x), "r"(y)); r[5] = q;
}
//! per=4
KERNEL carries(u32* o, const u32* a, const u32* b, const u32* c) {
  const u32 i = index(); u32 p, q, s; u32* r = o + 4 * i;
  asm("add.cc.u32 %0, %3, %4; addc.cc.u32 %1, %4, %5; addc.u32 %2, 0, 0;"
      : "=r"(p), "=r"(q), "=r"(s) : "r"(a[i]), "r"(b[i]), "r"(c[i]));
  r[0] = p; r[1] = q; r[2] = s;
  asm("sub.cc.u32 %0, %2, %3; subc.u32 %1, %3, %4;" : "=r"(p), "=r"(q) : "r"(a[i]), "r"(b[i]), "r"(c[i]));
  r[3] = p ^ q;
}
//! per=4
KERNEL product128(u64* o, const u64* a, const u64* b) {
  const u32 i = index(); u64 p, q; u64* r = o + 4 * i;
  asm("mul.lo.u64 %0, %2, %3; mad.lo.cc.u64 %0, %2, %3, %0; madc.hi.u64 %1, %2, %3, %3;"
      : "=&l"(p), "=l"(q) : "l"(a[i]), "l"(b[i]));
  r[0] = p; r[1] = q; const unsigned __int128 w = (unsigned __int128)a[i] * b[i] + a[i];
  r[2] = (u64)w; r[3] = (u64)(w >> 64);
}
//! per=3
KERNEL wide_products(u64* o, const u32* a, const u32* b) {
  const u32 i = index(); u64* r = o + 3 * i;
  r[0] = (u64)a[i] * b[i]; r[1] = (s64)(s32)a[i] * (s32)b[i]; r[2] = (u64)a[i] * b[i] + ((u64)b[i] << 32);
}
//! per=5
KERNEL narrowing(s64* o, const s64* a) {
  const u32 i = index(); const s64 x = a[i]; s64* r = o + 5 * i;
  r[0] = (s8)x; r[1] = (u8)x; r[2] = (s16)x; r[3] = (s32)x; r[4] = (u32)x;
}
//! per=6
KERNEL saturating_narrowing(s32* o, const s32* a, const s64* b) {
  const u32 i = index(); s32 q; s32* r = o + 6 * i;
  asm("cvt.sat.s8.s32 %0, %1;" : "=r"(q) : "r"(a[i])); r[0] = q;
  asm("cvt.sat.u8.s32 %0, %1;" : "=r"(q) : "r"(a[i])); r[1] = q;
  asm("cvt.sat.u8.u32 %0, %1;" : "=r"(q) : "r"(a[i])); r[2] = q;
  asm("cvt.sat.s32.s64 %0, %1;" : "=r"(q) : "l"(b[i])); r[3] = q;
  asm("cvt.sat.u32.s64 %0, %1;" : "=r"(q) : "l"(b[i])); r[4] = q;
  asm("cvt.sat.s32.u64 %0, %1;" : "=r"(q) : "l"(b[i])); r[5] = q;
}
KERNEL collatz(u32* o, const u16* a) {
  const u32 i = index(); u64 x = a[i] + 1ull; u32 steps = 0;
  while (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; ++steps; }
  o[i] = steps;
}
KERNEL greatest_divisor(u32* o, const u32* a, const u32* b) {
  u32 x = a[index()], y = b[index()];
  while (y) { const u32 t = x % y; x = y; y = t; }
  o[index()] = x;
}
KERNEL modular_power(u32* o, const u32* a, const u32* b) {
  const u32 i = index(); u64 base = a[i] % 1000003u, result = 1;
  for (u32 e = b[i]; e; e >>= 1) { if (e & 1) result = result * base % 1000003u; base = base * base % 1000003u; }
  o[i] = (u32)result;
}
