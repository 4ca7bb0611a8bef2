// What hardware computes approximately; `ulp` and `abs` say how far two implementations may be apart.
//! ulp=2
KERNEL reciprocal(f32* o, const f32* a) { asm("rcp.approx.f32 %0, %1;" : "=f"(o[index()]) : "f"(a[index()])); }
//! ulp=2
KERNEL reciprocal_flushed(f32* o, const f32* a) { asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(o[index()]) : "f"(a[index()])); }
//! ulp=2
KERNEL root(f32* o, const f32* a) { asm("sqrt.approx.f32 %0, %1;" : "=f"(o[index()]) : "f"(a[index()])); }
//! ulp=2
KERNEL reciprocal_root(f32* o, const f32* a) { asm("rsqrt.approx.f32 %0, %1;" : "=f"(o[index()]) : "f"(a[index()])); }
//! ulp=2
KERNEL reciprocal_root_flushed(f32* o, const f32* a) {
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(o[index()]) : "f"(a[index()]));
}
//! ulp=3 bounds=-1000:1000
KERNEL quotient(f32* o, const f32* a, const f32* b) {
  asm("div.approx.f32 %0, %1, %2;" : "=f"(o[index()]) : "f"(a[index()]), "f"(b[index()]));
}
//! ulp=3
KERNEL quotient_full(f32* o, const f32* a, const f32* b) {
  asm("div.full.f32 %0, %1, %2;" : "=f"(o[index()]) : "f"(a[index()]), "f"(b[index()]));
}
//! abs=1.2e-6 bounds=-3.1415:3.1415
KERNEL sine(f32* o, const f32* a) { o[index()] = __sinf(a[index()]); }
//! abs=1.2e-6 bounds=-3.1415:3.1415
KERNEL cosine(f32* o, const f32* a) { o[index()] = __cosf(a[index()]); }
//! ulp=4 bounds=-150:130
KERNEL power_of_two(f32* o, const f32* a) { asm("ex2.approx.f32 %0, %1;" : "=f"(o[index()]) : "f"(a[index()])); }
//! ulp=4
KERNEL power_of_two_edges(f32* o, const f32* a) { asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(o[index()]) : "f"(a[index()])); }
//! ulp=4 abs=4e-7
KERNEL logarithm(f32* o, const f32* a) { asm("lg2.approx.f32 %0, %1;" : "=f"(o[index()]) : "f"(a[index()])); }
//! ulp=4 abs=4e-7 bounds=0.5:2
KERNEL logarithm_near_one(f32* o, const f32* a) { asm("lg2.approx.f32 %0, %1;" : "=f"(o[index()]) : "f"(a[index()])); }
//! abs=4e-4
KERNEL hyperbolic_tangent(f32* o, const f32* a) { asm("tanh.approx.f32 %0, %1;" : "=f"(o[index()]) : "f"(a[index()])); }
//! ulp=8589934592
KERNEL reciprocal_f64(f64* o, const f64* a) { asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(o[index()]) : "d"(a[index()])); }
//! ulp=8589934592
KERNEL reciprocal_root_f64(f64* o, const f64* a) {
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(o[index()]) : "d"(a[index()]));
}
//! per=2 ulp=4
KERNEL f32_library_exponent(f32* o, const f32* a) { o[2 * index()] = expf(a[index()]); o[2 * index() + 1] = exp2f(a[index()]); }
//! per=2 ulp=4 abs=1e-6
KERNEL f32_library_logarithm(f32* o, const f32* a) { o[2 * index()] = logf(a[index()]); o[2 * index() + 1] = log1pf(a[index()]); }
//! per=3 ulp=4 abs=1e-6 bounds=-100:100
KERNEL f32_library_circle(f32* o, const f32* a) {
  f32* r = o + 3 * index(); r[0] = sinf(a[index()]); r[1] = cosf(a[index()]); r[2] = atanf(a[index()]);
}
//! per=4 ulp=6 abs=1e-6 bounds=0.01:20
KERNEL f32_library_more(f32* o, const f32* a, const f32* b) {
  const u32 i = index(); f32* r = o + 4 * i;
  r[0] = powf(a[i], b[i] * 0.25f); r[1] = cbrtf(a[i]); r[2] = hypotf(a[i], b[i]); r[3] = erff(a[i] * 0.1f);
}
//! per=3 ulp=2 bounds=-20:20
KERNEL f64_library(f64* o, const f64* a) {
  f64* r = o + 3 * index(); r[0] = exp(a[index()]); r[1] = sin(a[index()]); r[2] = log(fabs(a[index()]) + 0.5);
}
//! per=2 ulp=2
KERNEL f64_library_edges(f64* o, const f64* a) { o[2 * index()] = cbrt(a[index()]); o[2 * index() + 1] = atan(a[index()]); }
