// Operations of random programs, each defined for every value; operations.py has the same in Python.
#define AS_UNSIGNED(T, U) \
  DEVICE T add(T a, T b) { return (T)((U)a + (U)b); } DEVICE T sub(T a, T b) { return (T)((U)a - (U)b); } \
  DEVICE T mul(T a, T b) { return (T)((U)a * (U)b); } DEVICE T neg(T a) { return (T)(0 - (U)a); } \
  DEVICE T conj(T a, T b) { return a & b; } DEVICE T disj(T a, T b) { return a | b; } \
  DEVICE T diff(T a, T b) { return a ^ b; } DEVICE T inv(T a) { return ~a; } \
  DEVICE T shl(T a, T b) { return (T)((U)a << ((U)b & (8 * sizeof(T) - 1))); } \
  DEVICE T shr(T a, T b) { return a >> ((U)b & (8 * sizeof(T) - 1)); }
AS_UNSIGNED(s32, u32) AS_UNSIGNED(u32, u32) AS_UNSIGNED(s64, u64) AS_UNSIGNED(u64, u64)
DEVICE u32 quot(u32 a, u32 b) { return b ? a / b : 1; } DEVICE u64 quot(u64 a, u64 b) { return b ? a / b : 1; }
DEVICE u32 rest(u32 a, u32 b) { return b ? a % b : 2; } DEVICE u64 rest(u64 a, u64 b) { return b ? a % b : 2; }
DEVICE s32 quot(s32 a, s32 b) { return b == 0 ? 1 : b == -1 ? neg(a) : a / b; }
DEVICE s64 quot(s64 a, s64 b) { return b == 0 ? 1 : b == -1 ? neg(a) : a / b; }
DEVICE s32 rest(s32 a, s32 b) { return b == 0 ? 2 : b == -1 ? 0 : a % b; }
DEVICE s64 rest(s64 a, s64 b) { return b == 0 ? 2 : b == -1 ? 0 : a % b; }
DEVICE f32 add(f32 a, f32 b) { return a + b; } DEVICE f32 sub(f32 a, f32 b) { return a - b; }
DEVICE f32 mul(f32 a, f32 b) { return a * b; } DEVICE f32 quot(f32 a, f32 b) { return a / b; }
DEVICE f64 add(f64 a, f64 b) { return a + b; } DEVICE f64 sub(f64 a, f64 b) { return a - b; }
DEVICE f64 mul(f64 a, f64 b) { return a * b; } DEVICE f64 quot(f64 a, f64 b) { return a / b; }
DEVICE f32 neg(f32 a) { return -a; } DEVICE f64 neg(f64 a) { return -a; }
DEVICE f32 root(f32 a) { return sqrtf(fabsf(a)); } DEVICE f64 root(f64 a) { return sqrt(fabs(a)); }
#define HALF(name, op) DEVICE f16 name(f16 a, f16 b) { \
  f16 r; asm(op " %0, %1, %2;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits)); return r; }
HALF(add, "add.rn.f16") HALF(sub, "sub.rn.f16") HALF(mul, "mul.rn.f16")
DEVICE f32 wide(f16 a) { f32 r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a.bits)); return r; }
DEVICE f16 neg(f16 a) { return {(u16)(a.bits ^ 0x8000)}; }
template <typename T> DEVICE u32 less(T a, T b) { return a < b; } DEVICE u32 less(f16 a, f16 b) { return wide(a) < wide(b); }
template <typename T> DEVICE u32 same(T a, T b) { return a == b; } DEVICE u32 same(f16 a, f16 b) { return wide(a) == wide(b); }
template <typename T> DEVICE T pick(u32 c, T a, T b) { return c ? a : b; }
// Opaque to the compiler, which else makes a minimum of `a < b ? a : b`, with another sign where both are zero.
#define CHOICE(T, letter) DEVICE T pick(u32 c, T a, T b) { T r; asm("{ .reg .pred p; setp.ne.u32 p, %1, 0; " \
  "selp." #T " %0, %2, %3, p; }" : "=" letter(r) : "r"(c), letter(a), letter(b)); return r; }
CHOICE(f32, "f") CHOICE(f64, "d")
template <typename T> DEVICE T least(T a, T b) { return pick(less(a, b), a, b); }
DEVICE u32 ones(u32 a) { return __popc(a); } DEVICE u64 ones(u64 a) { return __popcll(a); }
DEVICE u32 mirror(u32 a) { return __brev(a); } DEVICE u64 mirror(u64 a) { return __brevll(a); }

template <typename T, typename F> struct Cast { static DEVICE T to(F x) { return (T)x; } };
#define FROM(T, F, f) template <> struct Cast<T, F> { static DEVICE T to(F x) { return f(x); } };
FROM(s32, f32, __float2int_rz) FROM(u32, f32, __float2uint_rz) FROM(s64, f32, __float2ll_rz) FROM(u64, f32, __float2ull_rz)
FROM(s32, f64, __double2int_rz) FROM(u32, f64, __double2uint_rz) FROM(s64, f64, __double2ll_rz) FROM(u64, f64, __double2ull_rz)
template <typename T> struct Cast<T, f16> { static DEVICE T to(f16 x) { return Cast<T, f32>::to(wide(x)); } };
template <typename F> struct Cast<f16, F> { static DEVICE f16 to(F x) {
  f16 r; const f32 y = (f32)x; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(y)); return r; } };
template <> struct Cast<f16, f16> { static DEVICE f16 to(f16 x) { return x; } };
template <typename T, typename F> DEVICE T cast(F x) { return Cast<T, F>::to(x); }

DEVICE u64 word(s32 x) { return (u32)x; } DEVICE u64 word(u32 x) { return x; } DEVICE u64 word(s64 x) { return x; }
DEVICE u64 word(u64 x) { return x; }
DEVICE u64 word(f32 x) { return x != x ? 0x7FC00000 : bits(x); }
DEVICE u64 word(f64 x) { return x != x ? 0x7FF8000000000000 : bits(x); }
DEVICE u64 word(f16 x) { return (x.bits & 0x7FFF) > 0x7C00 ? 0x7E00 : x.bits; }
template <typename T> DEVICE T made(u64 w) { return (T)w; }
template <> DEVICE f32 made<f32>(u64 w) { return __uint_as_float((u32)w); }
template <> DEVICE f64 made<f64>(u64 w) { return __longlong_as_double((s64)w); }
template <> DEVICE f16 made<f16>(u64 w) { return {(u16)w}; }
template <typename T> DEVICE T across(T x, u32 by) { return made<T>(__shfl_xor_sync(~0u, word(x), by)); }
template <typename T> DEVICE T around(T x, u32 by, u64* room) {
  room[threadIdx.x] = word(x); __syncthreads(); const u64 r = room[(threadIdx.x + by) % 64]; __syncthreads(); return made<T>(r);
}
DEVICE u64 mixed(u64 h, u64 w) { return (h ^ w) * 0x100000001B3ull + (h >> 29); }
