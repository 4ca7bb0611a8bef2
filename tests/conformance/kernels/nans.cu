// Which bits stand for "no number".
//! per=6
KERNEL f32_made(u32* o, const f32* a, const f32* b) {
  const u32 i = index(); const f32 x = __uint_as_float(bits(a[i]) | 0x7F800001), y = b[i]; u32* r = o + 6 * i;
  r[0] = bits(x + y); r[1] = bits(y * x); r[2] = bits(__fmaf_rn(x, y, y)); r[3] = bits(__fdiv_rn(y, x)); r[4] = bits(__fsqrt_rn(-fabsf(y)));
  r[5] = bits(x - x);
}
//! per=5
KERNEL f32_kept(u32* o, const f32* a, const f32* b) {
  const u32 i = index(); const f32 x = __uint_as_float(bits(a[i]) | 0x7F800001); u32* r = o + 5 * i;
  r[0] = bits(-x); r[1] = bits(fabsf(x)); r[2] = bits(copysignf(x, b[i])); r[3] = bits(fminf(x, b[i])); r[4] = bits(fmaxf(x, x));
}
//! per=6
KERNEL f64_made(u64* o, const f64* a, const f64* b) {
  const u32 i = index(); const f64 x = __longlong_as_double(bits(a[i]) | 0x7FF0000000000001), y = b[i]; u64* r = o + 6 * i;
  r[0] = bits(x + (isnan(y) ? 1.0 : y)); r[1] = bits((isnan(y) ? 2.0 : y) * x); r[2] = bits(__fma_rn(isnan(y) ? 3.0 : y, 1.5, x));
  r[3] = bits(__longlong_as_double(0x7FF0000000000000) - __longlong_as_double((bits(y) & 0) | 0x7FF0000000000000));
  r[4] = bits(__dsqrt_rn(-fabs(isnan(y) ? 4.0 : y) - 1)); r[5] = bits(__dmul_rn(y * 0, __longlong_as_double(0x7FF0000000000000)));
}
//! per=3
KERNEL f64_two(u64* o, const f64* a, const f64* b) {
  const u32 i = index(); const f64 x = __longlong_as_double(bits(a[i]) | 0x7FF0000000000001);
  const f64 y = __longlong_as_double(bits(b[i]) | 0x7FF0000000000001); u64* r = o + 3 * i;
  r[0] = bits(__dadd_rn(x, y)); r[1] = bits(__dmul_rn(x, y)); r[2] = bits(__fma_rn(x, 2.0, y));
}
//! per=3
KERNEL f64_kept(u64* o, const f64* a, const f64* b) {
  const u32 i = index(); const f64 x = __longlong_as_double(bits(a[i]) | 0x7FF0000000000001); u64* r = o + 3 * i;
  r[0] = bits(fmin(x, b[i])); r[1] = bits(fmax(b[i], x)); r[2] = bits(-x);
}
//! per=4
KERNEL converted(u64* o, const f32* a, const f64* b) {
  const u32 i = index(); const f32 x = __uint_as_float(bits(a[i]) | 0x7F800001); u64* r = o + 4 * i; u16 h;
  const f64 y = __longlong_as_double(bits(b[i]) | 0x7FF0000000000001);
  r[0] = bits((f64)x); r[1] = bits((f32)y); asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); r[2] = h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x)); r[3] = h;
}
//! per=3
KERNEL halves(u16* o, const f16* a, const f16* b) {
  const u32 i = index(); const u16 x = a[i].bits | 0x7C01; u16 q; u16* r = o + 3 * i;
  asm("add.rn.f16 %0, %1, %2;" : "=h"(q) : "h"(x), "h"(b[i].bits)); r[0] = q;
  asm("neg.f16 %0, %1;" : "=h"(q) : "h"(x)); r[1] = q; asm("min.f16 %0, %1, %2;" : "=h"(q) : "h"(x), "h"(b[i].bits)); r[2] = q;
}
KERNEL rounded(u32* o, const f32* a) { o[index()] = bits(rintf(__uint_as_float(bits(a[index()]) | 0x7F800001))); }
KERNEL rounded_f64(u64* o, const f64* a) { o[index()] = bits(rint(__longlong_as_double(bits(a[index()]) | 0x7FF0000000000001))); }
//! per=6
KERNEL f64_divided(u64* o, const f64* a, const f64* b) {
  const u32 i = index(); const f64 x = __longlong_as_double(bits(a[i]) | 0x7FF0000000000001), y = b[i]; u64* r = o + 6 * i;
  const f64 z = __longlong_as_double(bits(y) | 0x7FF0000000000001);
  r[0] = bits(__ddiv_rn(x, y)); r[1] = bits(__ddiv_rn(y, x)); r[2] = bits(__ddiv_rn(x, z)); r[3] = bits(__drcp_rn(x));
  r[4] = bits(__dsqrt_rn(x)); r[5] = bits(__fma_rn(x, z, y));
}
//! per=4
KERNEL f64_signs(u64* o, const f64* a) {
  const u32 i = index(); const f64 x = __longlong_as_double(bits(a[i]) | 0x7FF0000000000001); f64 q; u64* r = o + 4 * i;
  asm volatile("neg.f64 %0, %1;" : "=d"(q) : "d"(x)); r[0] = bits(q); asm volatile("abs.f64 %0, %1;" : "=d"(q) : "d"(x)); r[1] = bits(q);
  asm volatile("neg.f64 %0, %1;" : "=d"(q) : "d"(a[i])); r[2] = bits(q); asm volatile("abs.f64 %0, %1;" : "=d"(q) : "d"(a[i])); r[3] = bits(q);
}
//! per=4
KERNEL f32_signs(u32* o, const f32* a, const f32* b) {
  const u32 i = index(); const f32 x = __uint_as_float(bits(a[i]) | 0x7F800001); f32 q; u32* r = o + 4 * i;
  asm volatile("neg.f32 %0, %1;" : "=f"(q) : "f"(x)); r[0] = bits(q); asm volatile("abs.ftz.f32 %0, %1;" : "=f"(q) : "f"(x)); r[1] = bits(q);
  asm volatile("copysign.f32 %0, %1, %2;" : "=f"(q) : "f"(b[i]), "f"(x)); r[2] = bits(q);
  asm volatile("max.xorsign.abs.f32 %0, %1, %2;" : "=f"(q) : "f"(b[i]), "f"(x)); r[3] = bits(q);
}
//! per=6
KERNEL small_formats(u16* o, const bf16* a, const f16* b, const f64* c) {
  const u32 i = index(); const u16 x = a[i].bits | 0x7F81, y = b[i].bits | 0x7C01; u16 q; f32 f; u16* r = o + 6 * i;
  asm volatile("neg.bf16 %0, %1;" : "=h"(q) : "h"(x)); r[0] = q; asm volatile("abs.f16 %0, %1;" : "=h"(q) : "h"(y)); r[1] = q;
  asm volatile("cvt.f32.bf16 %0, %1;" : "=f"(f) : "h"(x)); r[2] = bits(f) >> 16;
  asm volatile("cvt.rn.f16.f64 %0, %1;" : "=h"(q) : "d"(__longlong_as_double(bits(c[i]) | 0x7FF0000000000001))); r[3] = q;
  asm volatile("max.bf16 %0, %1, %2;" : "=h"(q) : "h"(x), "h"(y)); r[4] = q;
  asm volatile("fma.rn.bf16 %0, %1, %1, %1;" : "=h"(q) : "h"(x)); r[5] = q;
}
