// f64 as IEEE 754 has it.
//! per=4
KERNEL add(f64* o, const f64* a, const f64* b) {
  const u32 i = index(); const f64 x = a[i], y = b[i]; f64* r = o + 4 * i;
  r[0] = __dadd_rn(x, y); r[1] = __dadd_rz(x, y); r[2] = __dadd_rd(x, y); r[3] = __dadd_ru(x, y);
}
//! per=4
KERNEL multiply(f64* o, const f64* a, const f64* b) {
  const u32 i = index(); const f64 x = a[i], y = b[i]; f64* r = o + 4 * i;
  r[0] = __dmul_rn(x, y); r[1] = __dmul_rz(x, y); r[2] = __dmul_rd(x, y); r[3] = __dmul_ru(x, y);
}
//! per=4
KERNEL fuse(f64* o, const f64* a, const f64* b, const f64* c) {
  const u32 i = index(); const f64 x = a[i], y = b[i], z = c[i]; f64* r = o + 4 * i;
  r[0] = __fma_rn(x, y, z); r[1] = __fma_rz(x, y, z); r[2] = __fma_rd(x, y, z); r[3] = __fma_ru(x, y, z);
}
//! per=4
KERNEL fuse_cancelling(f64* o, const f64* a, const f64* b) {
  const u32 i = index(); const f64 x = a[i], y = b[i], z = -__dmul_rn(x, y); f64* r = o + 4 * i;
  r[0] = __fma_rn(x, y, z); r[1] = __fma_rz(x, y, z); r[2] = __fma_rd(x, y, z); r[3] = __fma_ru(x, y, z);
}
//! per=4
KERNEL divide(f64* o, const f64* a, const f64* b) {
  const u32 i = index(); const f64 x = a[i], y = b[i]; f64* r = o + 4 * i;
  r[0] = __ddiv_rn(x, y); r[1] = __ddiv_rz(x, y); r[2] = __ddiv_rd(x, y); r[3] = __ddiv_ru(x, y);
}
//! per=4
KERNEL reciprocal(f64* o, const f64* a) {
  const u32 i = index(); f64* r = o + 4 * i;
  r[0] = __drcp_rn(a[i]); r[1] = __drcp_rz(a[i]); r[2] = __drcp_rd(a[i]); r[3] = __drcp_ru(a[i]);
}
//! per=4
KERNEL square_root(f64* o, const f64* a) {
  const u32 i = index(); f64* r = o + 4 * i;
  r[0] = __dsqrt_rn(a[i]); r[1] = __dsqrt_rz(a[i]); r[2] = __dsqrt_rd(a[i]); r[3] = __dsqrt_ru(a[i]);
}
//! per=4
KERNEL least_and_signs(f64* o, const f64* a, const f64* b) {
  const u32 i = index(); f64* r = o + 4 * i;
  r[0] = fmin(a[i], b[i]); r[1] = fmax(a[i], b[i]); r[2] = copysign(a[i], b[i]); r[3] = fabs(a[i]);
}
//! per=8
KERNEL compare(u32* o, const f64* a, const f64* b) {
  const u32 i = index(); const f64 x = a[i], y = b[i]; u32* r = o + 8 * i;
  r[0] = x < y; r[1] = x <= y; r[2] = x == y; r[3] = x != y; r[4] = !(x < y); r[5] = !(x == x && y == y);
  r[6] = x < y || x > y; r[7] = signbit(x) + 2 * isnan(x) + 4 * isinf(x);
}
//! per=5
KERNEL whole_numbers(f64* o, const f64* a) {
  const u32 i = index(); f64* r = o + 5 * i;
  r[0] = rint(a[i]); r[1] = floor(a[i]); r[2] = ceil(a[i]); r[3] = trunc(a[i]); r[4] = round(a[i]);
}
//! per=3
KERNEL neighbours(f64* o, const f64* a, const f64* b) {
  const u32 i = index(); f64* r = o + 3 * i;
  r[0] = nextafter(a[i], b[i]); r[1] = ldexp(a[i], (s32)(i * 17) - 1100); r[2] = fdim(a[i], b[i]);
}
//! per=2
KERNEL remainders(f64* o, const f64* a, const f64* b) {
  const u32 i = index(); f64* r = o + 2 * i;
  r[0] = fmod(a[i], b[i]); r[1] = remainder(a[i], b[i]);
}
KERNEL polynomial(f64* o, const f64* a) {
  const f64 v = a[index()], x = fabs(v) < 100 ? v : 1.25; f64 s = 0;
  for (u32 k = 1; k < 20; ++k) s = s * x + 1.0 / k;
  o[index()] = s;
}
