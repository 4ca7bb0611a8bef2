// f16 and bf16, by the instructions themselves.
#define H2(n, op) asm(op " %0, %1, %2;" : "=h"(q) : "h"(a[i].bits), "h"(b[i].bits)); r[n].bits = q;
#define H3(n, op) asm(op " %0, %1, %2, %3;" : "=h"(q) : "h"(a[i].bits), "h"(b[i].bits), "h"(c[i].bits)); r[n].bits = q;
#define W2(n, op) asm(op " %0, %1, %2;" : "=r"(q) : "r"(a[i]), "r"(b[i])); r[n] = q;
#define W3(n, op) asm(op " %0, %1, %2, %3;" : "=r"(q) : "r"(a[i]), "r"(b[i]), "r"(c[i])); r[n] = q;
//! per=5
KERNEL f16_arithmetic(f16* o, const f16* a, const f16* b, const f16* c) {
  const u32 i = index(); u16 q; f16* r = o + 5 * i;
  H2(0, "add.rn.f16") H2(1, "sub.rn.f16") H2(2, "mul.rn.f16") H3(3, "fma.rn.f16") H3(4, "fma.rn.relu.f16")
}
//! per=5
KERNEL f16_saturated(f16* o, const f16* a, const f16* b, const f16* c) {
  const u32 i = index(); u16 q; f16* r = o + 5 * i;
  H2(0, "add.rn.sat.f16") H2(1, "mul.rn.sat.f16") H3(2, "fma.rn.sat.f16") H2(3, "add.rn.ftz.f16") H3(4, "fma.rn.ftz.f16")
}
//! per=6
KERNEL f16_least(f16* o, const f16* a, const f16* b) {
  const u32 i = index(); u16 q; f16* r = o + 6 * i;
  H2(0, "min.f16") H2(1, "max.f16") H2(2, "min.NaN.f16") H2(3, "max.NaN.f16")
  asm("abs.f16 %0, %1;" : "=h"(q) : "h"(a[i].bits)); r[4].bits = q;
  asm("neg.f16 %0, %1;" : "=h"(q) : "h"(a[i].bits)); r[5].bits = q;
}
//! per=5
KERNEL bf16_arithmetic(bf16* o, const bf16* a, const bf16* b, const bf16* c) {
  const u32 i = index(); u16 q; bf16* r = o + 5 * i;
  H2(0, "add.rn.bf16") H2(1, "sub.rn.bf16") H2(2, "mul.rn.bf16") H3(3, "fma.rn.bf16") H3(4, "fma.rn.relu.bf16")
}
//! per=6
KERNEL bf16_least(bf16* o, const bf16* a, const bf16* b) {
  const u32 i = index(); u16 q; bf16* r = o + 6 * i;
  H2(0, "min.bf16") H2(1, "max.bf16") H2(2, "min.NaN.bf16") H2(3, "max.NaN.bf16")
  asm("abs.bf16 %0, %1;" : "=h"(q) : "h"(a[i].bits)); r[4].bits = q;
  asm("neg.bf16 %0, %1;" : "=h"(q) : "h"(a[i].bits)); r[5].bits = q;
}
//! per=6
KERNEL f16_pairs(u32* o, const u32* a, const u32* b, const u32* c) {
  const u32 i = index(); u32 q; u32* r = o + 6 * i;
  W2(0, "add.rn.f16x2") W2(1, "sub.rn.f16x2") W2(2, "mul.rn.f16x2") W3(3, "fma.rn.f16x2") W2(4, "min.f16x2")
  W2(5, "max.NaN.f16x2")
}
//! per=6
KERNEL bf16_pairs(u32* o, const u32* a, const u32* b, const u32* c) {
  const u32 i = index(); u32 q; u32* r = o + 6 * i;
  W2(0, "add.rn.bf16x2") W2(1, "sub.rn.bf16x2") W2(2, "mul.rn.bf16x2") W3(3, "fma.rn.bf16x2") W2(4, "min.bf16x2")
  W2(5, "max.NaN.bf16x2")
}
#define TEST(n, test, t) \
  asm("{ .reg .pred p; setp." test "." t " p, %1, %2; selp.u32 %0, 1, 0, p; }" : "=r"(r[n]) : "h"(a[i].bits), "h"(b[i].bits));
//! per=8
KERNEL f16_compare(u32* o, const f16* a, const f16* b) {
  const u32 i = index(); u32* r = o + 8 * i;
  TEST(0, "lt", "f16") TEST(1, "le", "f16") TEST(2, "eq", "f16") TEST(3, "ne", "f16")
  TEST(4, "ltu", "f16") TEST(5, "geu", "f16") TEST(6, "num", "f16") TEST(7, "nan", "f16")
}
//! per=4
KERNEL bf16_compare(u32* o, const bf16* a, const bf16* b) {
  const u32 i = index(); u32* r = o + 4 * i;
  TEST(0, "lt", "bf16") TEST(1, "equ", "bf16") TEST(2, "gtu", "bf16") TEST(3, "nan", "bf16")
}
//! per=3
KERNEL pair_tests(u32* o, const u32* a, const u32* b) {
  const u32 i = index(); u32 q; u32* r = o + 3 * i;
  W2(0, "set.lt.u32.f16x2") W2(1, "set.ge.f16x2.f16x2") W2(2, "set.neu.u32.bf16x2")
}
KERNEL f16_sum(f16* o, const f16* a) {
  u16 s = 0;
  for (u32 k = 0; k < 24; ++k) {
    u16 x = a[(index() * 5 + k) % 128].bits & 0xBBFF;
    asm("fma.rn.f16 %0, %1, %2, %0;" : "+h"(s) : "h"(x), "h"((u16)0x3A66));
  }
  o[index()].bits = s;
}
