// Contraction and fast maths as the compiler does them when it may.
//! options --fmad=true --ftz=true
//! per=2
KERNEL contracted(f32* o, const f32* a, const f32* b, const f32* c) {
  o[2 * index()] = fmaf(a[index()], b[index()], c[index()]); o[2 * index() + 1] = __fadd_rn(__fmul_rn(a[index()], b[index()]), c[index()]);
}
KERNEL flushed_sum(f32* o, const f32* a, const f32* b) { o[index()] = a[index()] + b[index()]; }
KERNEL flushed_compare(u32* o, const f32* a, const f32* b) { o[index()] = (a[index()] < b[index()]) + 2 * (a[index()] == b[index()]); }
KERNEL flushed_convert(s32* o, const f32* a) { o[index()] = (s32)ceilf(fabsf(a[index()]) < 1e9f ? a[index()] : 1.5f); }
