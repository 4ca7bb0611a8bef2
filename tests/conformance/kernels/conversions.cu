// Conversions with every rounding; what does not fit, and what is no number.
#define TO32(n, op, from) asm(op " %0, %1;" : "=r"(q) : from); r[n] = q;
#define TO64(n, op, from) asm(op " %0, %1;" : "=l"(w) : from); r[n] = w;
//! per=8
KERNEL f32_to_32(u32* o, const f32* a) {
  const u32 i = index(); u32 q; u32* r = o + 8 * i;
  TO32(0, "cvt.rni.s32.f32", "f"(a[i])) TO32(1, "cvt.rzi.s32.f32", "f"(a[i])) TO32(2, "cvt.rmi.s32.f32", "f"(a[i]))
  TO32(3, "cvt.rpi.s32.f32", "f"(a[i])) TO32(4, "cvt.rni.u32.f32", "f"(a[i])) TO32(5, "cvt.rzi.u32.f32", "f"(a[i]))
  TO32(6, "cvt.rmi.u32.f32", "f"(a[i])) TO32(7, "cvt.rpi.ftz.u32.f32", "f"(a[i]))
}
//! per=8
KERNEL f32_to_64(u64* o, const f32* a) {
  const u32 i = index(); u64 w; u64* r = o + 8 * i;
  TO64(0, "cvt.rni.s64.f32", "f"(a[i])) TO64(1, "cvt.rzi.s64.f32", "f"(a[i])) TO64(2, "cvt.rmi.s64.f32", "f"(a[i]))
  TO64(3, "cvt.rpi.s64.f32", "f"(a[i])) TO64(4, "cvt.rni.u64.f32", "f"(a[i])) TO64(5, "cvt.rzi.u64.f32", "f"(a[i]))
  TO64(6, "cvt.rmi.u64.f32", "f"(a[i])) TO64(7, "cvt.rpi.u64.f32", "f"(a[i]))
}
//! per=8
KERNEL f64_to_32(u32* o, const f64* a) {
  const u32 i = index(); u32 q; u32* r = o + 8 * i;
  TO32(0, "cvt.rni.s32.f64", "d"(a[i])) TO32(1, "cvt.rzi.s32.f64", "d"(a[i])) TO32(2, "cvt.rmi.s32.f64", "d"(a[i]))
  TO32(3, "cvt.rpi.s32.f64", "d"(a[i])) TO32(4, "cvt.rni.u32.f64", "d"(a[i])) TO32(5, "cvt.rzi.u32.f64", "d"(a[i]))
  TO32(6, "cvt.rmi.u32.f64", "d"(a[i])) TO32(7, "cvt.rpi.u32.f64", "d"(a[i]))
}
//! per=8
KERNEL f64_to_64(u64* o, const f64* a) {
  const u32 i = index(); u64 w; u64* r = o + 8 * i;
  TO64(0, "cvt.rni.s64.f64", "d"(a[i])) TO64(1, "cvt.rzi.s64.f64", "d"(a[i])) TO64(2, "cvt.rmi.s64.f64", "d"(a[i]))
  TO64(3, "cvt.rpi.s64.f64", "d"(a[i])) TO64(4, "cvt.rni.u64.f64", "d"(a[i])) TO64(5, "cvt.rzi.u64.f64", "d"(a[i]))
  TO64(6, "cvt.rmi.u64.f64", "d"(a[i])) TO64(7, "cvt.rpi.u64.f64", "d"(a[i]))
}
//! per=6
KERNEL f32_to_narrow(s32* o, const f32* a) {
  const u32 i = index(); s32 q; s32* r = o + 6 * i;
  TO32(0, "cvt.rzi.s8.f32", "f"(a[i])) TO32(1, "cvt.rzi.u8.f32", "f"(a[i]))
  short h; u16 k;
  asm("cvt.rni.s16.f32 %0, %1;" : "=h"(h) : "f"(a[i])); r[2] = h;
  asm("cvt.rni.u16.f32 %0, %1;" : "=h"(k) : "f"(a[i])); r[3] = k;
  asm("cvt.rzi.s16.f32 %0, %1;" : "=h"(h) : "f"(a[i] * 1000)); r[4] = h;
  asm("cvt.rpi.u16.f32 %0, %1;" : "=h"(k) : "f"(a[i] * 3)); r[5] = k;
}
//! per=8
KERNEL integers_to_f32(f32* o, const s32* a, const u32* b) {
  const u32 i = index(); f32* r = o + 8 * i;
  r[0] = __int2float_rn(a[i]); r[1] = __int2float_rz(a[i]); r[2] = __int2float_rd(a[i]); r[3] = __int2float_ru(a[i]);
  r[4] = __uint2float_rn(b[i]); r[5] = __uint2float_rz(b[i]); r[6] = __uint2float_rd(b[i]); r[7] = __uint2float_ru(b[i]);
}
//! per=8
KERNEL longs_to_f32(f32* o, const s64* a, const u64* b) {
  const u32 i = index(); f32* r = o + 8 * i;
  r[0] = __ll2float_rn(a[i]); r[1] = __ll2float_rz(a[i]); r[2] = __ll2float_rd(a[i]); r[3] = __ll2float_ru(a[i]);
  r[4] = __ull2float_rn(b[i]); r[5] = __ull2float_rz(b[i]); r[6] = __ull2float_rd(b[i]); r[7] = __ull2float_ru(b[i]);
}
//! per=8
KERNEL longs_to_f64(f64* o, const s64* a, const u64* b) {
  const u32 i = index(); f64* r = o + 8 * i;
  r[0] = __ll2double_rn(a[i]); r[1] = __ll2double_rz(a[i]); r[2] = __ll2double_rd(a[i]); r[3] = __ll2double_ru(a[i]);
  r[4] = __ull2double_rn(b[i]); r[5] = __ull2double_rz(b[i]); r[6] = __ull2double_rd(b[i]); r[7] = (f64)(s32)b[i];
}
//! per=6
KERNEL f64_to_f32(f32* o, const f64* a) {
  const u32 i = index(); f32 q; f32* r = o + 6 * i;
  r[0] = __double2float_rn(a[i]); r[1] = __double2float_rz(a[i]); r[2] = __double2float_rd(a[i]);
  r[3] = __double2float_ru(a[i]);
  asm("cvt.rn.ftz.f32.f64 %0, %1;" : "=f"(q) : "d"(a[i])); r[4] = q;
  asm("cvt.rn.sat.f32.f64 %0, %1;" : "=f"(q) : "d"(a[i])); r[5] = q;
}
//! per=2
KERNEL f32_to_f64(f64* o, const f32* a) {
  const u32 i = index(); f64 q; f64* r = o + 2 * i;
  r[0] = a[i]; asm("cvt.ftz.f64.f32 %0, %1;" : "=d"(q) : "f"(a[i])); r[1] = q;
}
#define TO16(n, op, from) asm(op " %0, %1;" : "=h"(q) : from); r[n].bits = q;
//! per=6
KERNEL f32_to_f16(f16* o, const f32* a) {
  const u32 i = index(); u16 q; f16* r = o + 6 * i;
  TO16(0, "cvt.rn.f16.f32", "f"(a[i])) TO16(1, "cvt.rz.f16.f32", "f"(a[i])) TO16(2, "cvt.rm.f16.f32", "f"(a[i]))
  TO16(3, "cvt.rp.f16.f32", "f"(a[i])) TO16(4, "cvt.rn.sat.f16.f32", "f"(a[i])) TO16(5, "cvt.rn.relu.f16.f32", "f"(a[i]))
}
//! per=3
KERNEL f32_to_bf16(bf16* o, const f32* a) {
  const u32 i = index(); u16 q; bf16* r = o + 3 * i;
  TO16(0, "cvt.rn.bf16.f32", "f"(a[i])) TO16(1, "cvt.rz.bf16.f32", "f"(a[i])) TO16(2, "cvt.rn.relu.bf16.f32", "f"(a[i]))
}
//! per=8
KERNEL integers_to_f16(f16* o, const s32* a, const s64* b, const u16* c) {
  const u32 i = index(); u16 q; f16* r = o + 8 * i;
  TO16(0, "cvt.rn.f16.s32", "r"(a[i])) TO16(1, "cvt.rz.f16.s32", "r"(a[i])) TO16(2, "cvt.rm.f16.u32", "r"(a[i]))
  TO16(3, "cvt.rp.f16.s32", "r"(a[i])) TO16(4, "cvt.rn.f16.s64", "l"(b[i])) TO16(5, "cvt.rn.f16.u64", "l"(b[i]))
  TO16(6, "cvt.rn.f16.u16", "h"(c[i])) TO16(7, "cvt.rp.f16.s16", "h"(c[i]))
}
//! per=5
KERNEL f16_to_integers(s64* o, const f16* a) {
  const u32 i = index(); s64 w; s32 q; s64* r = o + 5 * i;
  TO32(0, "cvt.rni.s32.f16", "h"(a[i].bits)) TO32(1, "cvt.rmi.s32.f16", "h"(a[i].bits))
  TO32(2, "cvt.rzi.u32.f16", "h"(a[i].bits)) TO64(3, "cvt.rpi.s64.f16", "h"(a[i].bits))
  TO64(4, "cvt.rzi.u64.f16", "h"(a[i].bits))
}
//! per=2
KERNEL halves_to_f32(f32* o, const f16* a, const bf16* b) {
  const u32 i = index(); f32* r = o + 2 * i;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r[0]) : "h"(a[i].bits)); asm("cvt.f32.bf16 %0, %1;" : "=f"(r[1]) : "h"(b[i].bits));
}
//! per=2
KERNEL f16_to_f64(f64* o, const f16* a, const f64* b) {
  const u32 i = index(); f64* r = o + 2 * i; u16 h;
  asm("cvt.f64.f16 %0, %1;" : "=d"(r[0]) : "h"(a[i].bits));
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(b[i])); r[1] = h;
}
//! per=5
KERNEL pairs(u32* o, const f32* a, const f32* b) {
  const u32 i = index(); u32 q; u32* r = o + 5 * i;
#define PAIR(n, op) asm(op " %0, %1, %2;" : "=r"(q) : "f"(a[i]), "f"(b[i])); r[n] = q;
  PAIR(0, "cvt.rn.f16x2.f32") PAIR(1, "cvt.rz.f16x2.f32") PAIR(2, "cvt.rn.relu.f16x2.f32") PAIR(3, "cvt.rn.bf16x2.f32")
  PAIR(4, "cvt.rz.relu.bf16x2.f32")
}
KERNEL tf32(u32* o, const f32* a) { asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(o[index()]) : "f"(a[index()])); }
//! per=4
KERNEL f32_to_whole(f32* o, const f32* a) {
  const u32 i = index(); f32 q; f32* r = o + 4 * i;
#define WHOLE(n, op) asm(op " %0, %1;" : "=f"(q) : "f"(a[i])); r[n] = q;
  WHOLE(0, "cvt.rni.ftz.f32.f32") WHOLE(1, "cvt.rzi.sat.f32.f32") WHOLE(2, "cvt.sat.f32.f32") WHOLE(3, "cvt.rpi.f32.f32")
}
//! per=4
KERNEL cast_in_c(s64* o, const f32* a, const f64* b) {
  const u32 i = index(); s64* r = o + 4 * i; const bool ok = fabsf(a[i]) < 1e9f && fabs(b[i]) < 1e9;
  r[0] = ok ? (s32)a[i] : 0; r[1] = ok ? (s64)b[i] : 0; r[2] = ok ? (u8)(u32)fabsf(a[i]) : 0; r[3] = bits((f32)b[i]);
}
