// Branches, loops, switches, calls, recursion, function pointers.
KERNEL nested_branches(u32* o, const s32* a, const s32* b) {
  const s32 x = a[index()], y = b[index()]; u32 r = 0;
  if (x > 0) { if (y > 0) r = 1; else if (y == 0) r = 2; else { r = x & 1 ? 3 : 4; } }
  else if (x < -5) r = y & 2 ? 5 : 6;
  else for (s32 k = x; k < 3; ++k) r += k * k + 7;
  o[index()] = r;
}
KERNEL switch_dense(u32* o, const u32* a) {
  u32 r; const u32 x = a[index()];
  switch (x % 11) {
    case 0: r = x + 1; break;
    case 1: r = x * 3; break;
    case 2: r = x >> 2;  // and on
    case 3: r = ~x; break;
    case 4: r = x << 5; break;
    case 5: case 6: r = x ^ 0x5A5A; break;
    case 7: r = __popc(x); break;
    case 8: r = x / 3; break;
    case 9: r = x % 7; break;
    default: r = 99;
  }
  o[index()] = r;
}
KERNEL loop_with_exits(u32* o, const u32* a) {
  u32 x = a[index()], r = 0;
  for (u32 k = 0; k < 40; ++k) {
    x = x * 1664525u + 1013904223u;
    if (!(x & 15)) continue;
    if (x >> 28 == 7) break;
    r += x >> (k & 7);
  }
  o[index()] = r;
}
KERNEL loop_per_lane(u32* o, const u8* a) {
  u32 r = 1;
  for (u32 k = 0; k < a[index()]; ++k) { r = r * 31 + k; if (k % 3 == 1) for (u32 j = k & 3; j; --j) r ^= j << k % 20; }
  o[index()] = r;
}
__device__ __noinline__ u32 fibonacci(u32 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
//! bounds=0:12
KERNEL recursion(u32* o, const u32* a) { o[index()] = fibonacci(a[index()]); }
__device__ __noinline__ u32 ackermann(u32 m, u32 n) {
  return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
//! grid=1 block=32
KERNEL recursion_twofold(u32* o, const u32* a) { o[index()] = ackermann(a[index()] % 3, a[index()] % 6); }
__device__ __noinline__ bool is_odd(u32 n);
__device__ __noinline__ bool is_even(u32 n) { return n == 0 || is_odd(n - 1); }
__device__ __noinline__ bool is_odd(u32 n) { return n != 0 && is_even(n - 1); }
//! bounds=0:40
KERNEL mutual_recursion(u32* o, const u32* a) { o[index()] = is_even(a[index()]) + 2 * is_odd(a[index()]); }
typedef u32 (*Binary)(u32, u32);
__device__ __noinline__ u32 f_add(u32 a, u32 b) { return a + b; }
__device__ __noinline__ u32 f_mul(u32 a, u32 b) { return a * b; }
__device__ __noinline__ u32 f_xor(u32 a, u32 b) { return a ^ b; }
__device__ __noinline__ u32 f_shift(u32 a, u32 b) { return a << (b & 31); }
__device__ Binary table[4] = {f_add, f_mul, f_xor, f_shift};
KERNEL function_pointers(u32* o, const u32* a, const u32* b) {
  u32 r = a[index()];
  for (u32 k = 0; k < 5; ++k) r = table[(r + k) & 3](r, b[index()] + k);
  o[index()] = r;
}
KERNEL one_pointer_for_all(u32* o, const u32* a, const u32* b) {
  Binary f = blockIdx.x ? f_mul : f_xor; if (a[0] == 0x12345) f = f_add;
  o[index()] = f(a[index()], b[index()]);
}
struct Shape { __device__ virtual u32 area(u32 s) const = 0; };
struct Square : Shape { __device__ u32 area(u32 s) const override { return s * s; } };
struct Bar : Shape { u32 n; __device__ Bar(u32 k) : n(k) {} __device__ u32 area(u32 s) const override { return s * n; } };
KERNEL virtual_functions(u32* o, const u32* a) {
  Square s; Bar b(index()); const Shape* p = a[index()] & 1 ? (const Shape*)&s : &b;
  o[index()] = p->area(a[index()] & 1023);
}
struct Big { u32 v[9]; u64 w; u8 c; };
__device__ __noinline__ Big turn(Big x, u32 by) {
  Big r; for (u32 k = 0; k < 9; ++k) r.v[k] = x.v[(k + by) % 9]; r.w = x.w * by; r.c = x.c + by; return r;
}
KERNEL structures_by_value(u32* o, const u32* a) {
  Big x; for (u32 k = 0; k < 9; ++k) x.v[k] = a[index()] + k; x.w = a[index()]; x.c = a[index()];
  const Big y = turn(turn(x, a[index()] % 9), 4); u32 r = y.c + (u32)(y.w >> 3);
  for (u32 k = 0; k < 9; ++k) r = r * 33 + y.v[k];
  o[index()] = r;
}
template <u32 N> DEVICE u32 power(u32 x) { if constexpr (N == 0) return 1; else return x * power<N - 1>(x); }
KERNEL templates_and_lambdas(u32* o, const u32* a) {
  const u32 x = a[index()]; auto twice = [x](auto f) { return f(f(x)); };
  o[index()] = power<5>(x) + twice([](u32 v) { return v * 3 + 1; });
}
KERNEL early_return(u32* o, const u32* a) {
  o[index()] = 1; if (a[index()] & 1) return;
  o[index()] = 2; if (a[index()] & 2) { asm volatile("exit;"); }
  o[index()] = 3;
}
KERNEL jumps(u32* o, const u32* a) {
  u32 x = a[index()] & 63, r = 0;
again:
  r += x; if (x > 40) { x -= 7; goto again; }
  if (x & 1) { x >>= 1; r ^= 5; goto again; }
  if (x > 2) { x -= 2; goto again; }
  o[index()] = r;
}
KERNEL short_circuit(u32* o, const u32* a, const u32* b) {
  u32 calls = 0; auto test = [&](u32 v) { ++calls; return (v & 3) != 0; };
  const u32 x = a[index()], y = b[index()];
  const bool r = (test(x) && test(y)) || (test(x >> 2) && !test(y >> 2)); o[index()] = calls * 2 + r;
}
//! grid=1 block=32
KERNEL sieve(u32* o) {
  u32 n = 0;
  for (u32 p = 2 + index(); p < 600; p += 32) { bool prime = true; for (u32 d = 2; d * d <= p && prime; ++d) prime = p % d; n += prime; }
  o[index()] = n;
}
