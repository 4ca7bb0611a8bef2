// f32 as IEEE 754 has it: all roundings, subnormal numbers, comparison, minimum and maximum.
//! per=4
KERNEL add(f32* o, const f32* a, const f32* b) {
  const u32 i = index(); const f32 x = a[i], y = b[i]; f32* r = o + 4 * i;
  r[0] = __fadd_rn(x, y); r[1] = __fadd_rz(x, y); r[2] = __fadd_rd(x, y); r[3] = __fadd_ru(x, y);
}
//! per=4
KERNEL subtract(f32* o, const f32* a, const f32* b) {
  const u32 i = index(); const f32 x = a[i], y = b[i]; f32* r = o + 4 * i;
  r[0] = __fsub_rn(x, y); r[1] = __fsub_rz(x, y); r[2] = __fsub_rd(x, y); r[3] = __fsub_ru(x, y);
}
//! per=4
KERNEL multiply(f32* o, const f32* a, const f32* b) {
  const u32 i = index(); const f32 x = a[i], y = b[i]; f32* r = o + 4 * i;
  r[0] = __fmul_rn(x, y); r[1] = __fmul_rz(x, y); r[2] = __fmul_rd(x, y); r[3] = __fmul_ru(x, y);
}
//! per=4
KERNEL fuse(f32* o, const f32* a, const f32* b, const f32* c) {
  const u32 i = index(); const f32 x = a[i], y = b[i], z = c[i]; f32* r = o + 4 * i;
  r[0] = __fmaf_rn(x, y, z); r[1] = __fmaf_rz(x, y, z); r[2] = __fmaf_rd(x, y, z); r[3] = __fmaf_ru(x, y, z);
}
//! per=4
KERNEL fuse_cancelling(f32* o, const f32* a, const f32* b) {
  const u32 i = index(); const f32 x = a[i], y = b[i], z = -__fmul_rn(x, y); f32* r = o + 4 * i;
  r[0] = __fmaf_rn(x, y, z); r[1] = __fmaf_rz(x, y, z); r[2] = __fmaf_rd(x, y, z); r[3] = __fmaf_ru(x, y, z);
}
//! per=4
KERNEL divide(f32* o, const f32* a, const f32* b) {
  const u32 i = index(); const f32 x = a[i], y = b[i]; f32* r = o + 4 * i;
  r[0] = __fdiv_rn(x, y); r[1] = __fdiv_rz(x, y); r[2] = __fdiv_rd(x, y); r[3] = __fdiv_ru(x, y);
}
//! per=4
KERNEL reciprocal(f32* o, const f32* a) {
  const u32 i = index(); f32* r = o + 4 * i;
  r[0] = __frcp_rn(a[i]); r[1] = __frcp_rz(a[i]); r[2] = __frcp_rd(a[i]); r[3] = __frcp_ru(a[i]);
}
//! per=4
KERNEL square_root(f32* o, const f32* a) {
  const u32 i = index(); f32* r = o + 4 * i;
  r[0] = __fsqrt_rn(a[i]); r[1] = __fsqrt_rz(a[i]); r[2] = __fsqrt_rd(a[i]); r[3] = __fsqrt_ru(a[i]);
}
//! per=6
KERNEL flushed(f32* o, const f32* a, const f32* b, const f32* c) {
  const u32 i = index(); f32 q; f32* r = o + 6 * i;
#define TWO(n, op) asm(op " %0, %1, %2;" : "=f"(q) : "f"(a[i]), "f"(b[i])); r[n] = q;
  TWO(0, "add.ftz.f32") TWO(1, "mul.ftz.f32") TWO(2, "sub.rz.ftz.f32") TWO(3, "div.rn.ftz.f32")
  asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(q) : "f"(a[i]), "f"(b[i]), "f"(c[i])); r[4] = q;
  asm("sqrt.rn.ftz.f32 %0, %1;" : "=f"(q) : "f"(a[i])); r[5] = q;
}
//! per=4
KERNEL saturated(f32* o, const f32* a, const f32* b, const f32* c) {
  const u32 i = index(); f32 q; f32* r = o + 4 * i;
  TWO(0, "add.sat.f32") TWO(1, "mul.sat.f32")
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(q) : "f"(a[i]), "f"(b[i]), "f"(c[i])); r[2] = q;
  r[3] = __saturatef(a[i]);
}
//! per=6
KERNEL least_and_most(f32* o, const f32* a, const f32* b) {
  const u32 i = index(); f32 q; f32* r = o + 6 * i;
  TWO(0, "min.f32") TWO(1, "max.f32") TWO(2, "min.NaN.f32") TWO(3, "max.NaN.f32") TWO(4, "min.ftz.f32")
  TWO(5, "max.xorsign.abs.f32")
}
//! per=4
KERNEL signs(f32* o, const f32* a, const f32* b) {
  const u32 i = index(); f32* r = o + 4 * i;
  r[0] = fabsf(a[i]); r[1] = -a[i]; r[2] = copysignf(a[i], b[i]); r[3] = fdimf(a[i], b[i]);
}
//! per=8
KERNEL compare(u32* o, const f32* a, const f32* b) {
  const u32 i = index(); const f32 x = a[i], y = b[i]; u32* r = o + 8 * i;
  r[0] = x < y; r[1] = x <= y; r[2] = x == y; r[3] = x != y; r[4] = !(x < y); r[5] = !(x == x && y == y);
  r[6] = x < y || x > y; r[7] = x > y || x != x;
}
//! per=5
KERNEL kinds(u32* o, const f32* a) {
  const u32 i = index(); u32* r = o + 5 * i;
  r[0] = isnan(a[i]); r[1] = isinf(a[i]); r[2] = isfinite(a[i]); r[3] = signbit(a[i]);
  asm("{ .reg .pred p; testp.subnormal.f32 p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(r[4]) : "f"(a[i]));
}
//! per=5
KERNEL whole_numbers(f32* o, const f32* a) {
  const u32 i = index(); f32* r = o + 5 * i;
  r[0] = rintf(a[i]); r[1] = floorf(a[i]); r[2] = ceilf(a[i]); r[3] = truncf(a[i]); r[4] = roundf(a[i]);
}
//! per=3
KERNEL neighbours(f32* o, const f32* a, const f32* b) {
  const u32 i = index(); f32* r = o + 3 * i;
  r[0] = nextafterf(a[i], b[i]); r[1] = ldexpf(a[i], (s32)(i % 300) - 150); r[2] = scalbnf(a[i], 3);
}
//! per=3
KERNEL remainders(f32* o, const f32* a, const f32* b) {
  const u32 i = index(); f32* r = o + 3 * i; s32 quotient = 0;
  r[0] = fmodf(a[i], b[i]); r[1] = remainderf(a[i], b[i]); r[2] = remquof(a[i], b[i], &quotient);
}
KERNEL dot_product(f32* o, const f32* a, const f32* b) {
  f32 s = 0;
  for (u32 k = 0; k < 16; ++k) { const u32 at = (index() * 3 + k) % 128; s += isfinite(a[at] * b[at]) ? a[at] * b[at] : 1; }
  o[index()] = s;
}
KERNEL compensated_sum(f32* o, const f32* a) {
  f32 s = 0, c = 0;
  for (u32 k = 0; k < 32; ++k) {
    const f32 v = a[(index() + k) % 128], x = fabsf(v) < 1e6f ? v : 0.5f;
    const f32 y = x - c, t = s + y; c = (t - s) - y; s = t;
  }
  o[index()] = s;
}
