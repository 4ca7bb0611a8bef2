// ld, st, their variants, prefetches and fences.
#include <atomic>

#include "exec/apply.h"
#include "exec/memory.h"

namespace sim::exec {
namespace {

// The thread sanitizer knows atomic variables, but no fences.
inline void order_memory() {
#if defined(__SANITIZE_THREAD__)
  static std::atomic<int> word{0};
  word.fetch_add(1);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// Each access is one machine access, so that other threads see whole values.
template <typename M, typename S, bool sign>
void load_elements(Warp& w, int32_t to, const uint64_t* at, unsigned offset) {
  alignas(64) S value[kLanes];
  for (unsigned i = 0; i < kLanes; ++i) {
    const M raw = __atomic_load_n(reinterpret_cast<const M*>(at[i] + offset), __ATOMIC_RELAXED);
    value[i] = sign ? static_cast<S>(static_cast<std::make_signed_t<M>>(raw)) : static_cast<S>(raw);
  }
  store_lanes(w.out<S>(to), value, w.mask);
}

template <typename M, typename S, bool sign>
void load(Warp& w, const Op& op) {
  Places places;
  Op where = op;
  where.wide = op.mode & 1;
  find_places(w, where, sizeof(M) * op.count, false, places);
  const int32_t to[4] = {op.d, op.more[0], op.more[1], op.more[2]};
  for (unsigned k = 0; k < op.count; ++k) load_elements<M, S, sign>(w, to[k], places.at, k * sizeof(M));
  if (op.mode & 2) order_memory();
}

template <typename M, typename S>
void store(Warp& w, const Op& op) {
  Places places;
  if (op.mode & 2) order_memory();
  Op where = op;
  where.wide = op.mode & 1;
  find_places(w, where, sizeof(M) * op.count, true, places);
  const int32_t from[4] = {op.d, op.more[0], op.more[1], op.more[2]};
  for (unsigned k = 0; k < op.count; ++k) {
    const S* value = w.in<S>(from[k]);
    for (unsigned i = 0; i < kLanes; ++i)
      if (w.mask >> i & 1)
        __atomic_store_n(reinterpret_cast<M*>(places.at[i] + k * sizeof(M)), static_cast<M>(value[i]), __ATOMIC_RELAXED);
  }
}

template <typename M>
Run load_of(bool wide, bool sign) {
  if constexpr (sizeof(M) == 8) return wide ? &load<M, uint64_t, false> : nullptr;
  else return wide ? sign ? &load<M, uint64_t, true> : &load<M, uint64_t, false>
                   : sign ? &load<M, uint32_t, true> : &load<M, uint32_t, false>;
}

Run load_for(unsigned bytes, bool wide, bool sign) {
  switch (bytes) {
    case 1: return load_of<uint8_t>(wide, sign);
    case 2: return load_of<uint16_t>(wide, sign);
    case 4: return load_of<uint32_t>(wide, sign);
    default: return load_of<uint64_t>(wide, sign);
  }
}

Run store_for(unsigned bytes, bool wide) {
  switch (bytes) {
    case 1: return wide ? &store<uint8_t, uint64_t> : &store<uint8_t, uint32_t>;
    case 2: return wide ? &store<uint16_t, uint64_t> : &store<uint16_t, uint32_t>;
    case 4: return wide ? &store<uint32_t, uint64_t> : &store<uint32_t, uint32_t>;
    default: return &store<uint64_t, uint64_t>;
  }
}

// Everything between the opcode and the type; what only concerns caches changes nothing.
void take_qualifiers(Builder& b, Op& op, bool& has_policy) {
  for (;;) {
    const std::string_view word = b.peek();
    if (b.take_any({"weak", "volatile", "relaxed", "mmio", "cta", "cluster", "gpu", "sys", "nc", "ca", "cg", "cs", "lu",
                    "cv", "wb", "wt"})) continue;
    if (b.take_any({"acquire", "release"})) op.mode |= 2;
    else if (b.take("global")) op.memory = Memory::global;
    else if (b.take("const")) op.memory = Memory::global;
    else if (b.take_any({"shared", "shared::cta", "shared::cluster"})) op.memory = Memory::shared;
    else if (b.take("local")) op.memory = Memory::local;
    else if (b.take_any({"param", "param::entry", "param::func"})) op.memory = b.entry() ? Memory::parameter : Memory::local;
    else if (word.starts_with("L1::") || (word.starts_with("L2::") && word != "L2::cache_hint")) b.take(word);
    else if (b.take("L2::cache_hint")) has_policy = true;
    else if (b.take("v2")) op.count = 2;
    else if (b.take("v4")) op.count = 4;
    else return;
  }
}

void access(Builder& b, bool loads) {
  Op op;
  bool has_policy = false;
  take_qualifiers(b, op, has_policy);
  const Type type = b.take_type();
  if (type == Type::pred || bytes_of(type) > 8) b.reject("not for this type");
  b.expect_operands(2, has_policy ? 3 : 2);
  const unsigned bytes = bytes_of(type);
  if (op.count > 1 && bytes * op.count > 32) b.reject("the vector is too long");
  b.address(op, b.operand(loads ? 1 : 0));
  op.mode |= op.wide ? 1 : 0;
  const Operand& data = b.operand(loads ? 0 : 1);
  const bool vector = data.kind == Operand::Kind::vector;
  if (vector != (op.count > 1) || (vector && data.items.size() != op.count)) b.reject("the vector has another length");
  int32_t* places[4] = {&op.d, &op.more[0], &op.more[1], &op.more[2]};
  bool wide = false;
  for (unsigned k = 0; k < op.count; ++k) {
    const Operand& one = vector ? data.items[k] : data;
    bool this_wide = false;
    *places[k] = loads ? b.write_wider(one, type, this_wide) : b.read_wider(one, type, this_wide);
    const bool blank = one.kind == Operand::Kind::blank;
    if (blank && bytes < 8) this_wide = wide;
    if (k && !blank && this_wide != wide) b.reject("registers of different sizes");
    wide = this_wide;
  }
  op.run = loads ? load_for(bytes, wide, ptx::is_signed(type)) : store_for(bytes, wide);
  if (!op.run) b.reject("not for this type");
  b.add(op);
}

void ld(Builder& b) { access(b, true); }
void ldu(Builder& b) { access(b, true); }
void st(Builder& b) { access(b, false); }

void fence(Builder& b) {
  while (!b.peek().empty()) {
    if (b.take_any({"sc", "acq_rel", "cta", "cluster", "gpu", "sys", "gl", "proxy", "alias", "async", "async::global",
                    "async::shared::cta", "acquire", "release", "sync_restrict::shared::cta", "mbarrier_init"})) continue;
    b.done();
  }
  b.emit([](Warp&, const Op&) { order_memory(); });
}

// Hints: nothing to do on this machine.
void nothing(Builder& b) {
  while (!b.peek().empty()) b.take(b.peek());
}

// cp.async copies at once, so waiting for it is free.
template <unsigned bytes>
void copy_now(Warp& w, const Op& op) {
  Places from, to;
  Op source = op;
  source.memory = Memory::global;
  source.a = op.b;
  source.immediate = op.target;
  source.wide = true;
  find_places(w, source, bytes, false, from);
  find_places(w, op, bytes, true, to);
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!(w.mask >> i & 1)) continue;
    const uint32_t length = op.c == kNone ? bytes : std::min(bytes, w.in<uint32_t>(op.c)[i]);
    std::memset(reinterpret_cast<void*>(to.at[i]), 0, bytes);
    std::memcpy(reinterpret_cast<void*>(to.at[i]), reinterpret_cast<const void*>(from.at[i]), length);
  }
}

void cp(Builder& b) {
  if (!b.take("async")) b.reject("not supported");
  if (b.take_any({"commit_group", "wait_group", "wait_all"})) {
    b.done();
    return;
  }
  if (!b.take_any({"ca", "cg"}) || !b.take_any({"shared", "shared::cta"}) || !b.take("global")) b.reject("not supported");
  while (b.peek().starts_with("L2::") && b.peek() != "L2::cache_hint") b.take(b.peek());
  const bool hint = b.take("L2::cache_hint");
  b.expect_operands(3, hint ? 5 : 4);
  const Operand& size = b.operand(2);
  Op op, source;
  op.memory = Memory::shared;
  b.address(source, b.operand(1));
  if (!source.wide || source.immediate < 0 || source.immediate > INT32_MAX) b.reject("a source of this form");
  op.target = static_cast<uint32_t>(source.immediate);
  op.b = source.a;
  b.address(op, b.operand(0));
  if (b.operands() > (hint ? 4u : 3u)) op.c = b.read(b.operand(3), Type::u32);
  if (size.kind != Operand::Kind::integer) b.reject("the size must be a number");
  if (size.value == 4) op.run = copy_now<4>;
  else if (size.value == 8) op.run = copy_now<8>;
  else if (size.value == 16) op.run = copy_now<16>;
  else b.reject("the size must be 4, 8 or 16");
  b.add(op);
}

const Instructions known{{"ld", ld}, {"ldu", ldu}, {"st", st}, {"fence", fence}, {"membar", fence}, {"prefetch", nothing},
                         {"prefetchu", nothing}, {"griddepcontrol", nothing}, {"discard", nothing}, {"applypriority", nothing}, {"cp", cp}};

}  // namespace
}  // namespace sim::exec
