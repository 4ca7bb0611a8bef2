#include "exec/warp.h"

#include <bit>
#include <cstdlib>
#include <new>

#include "exec/block.h"

// Which lanes run: among the groups of lanes (fragments) that are ready, the deepest call and there the lowest place in
// the code. Compilers lay code out such that what comes together again comes together behind the branches, so the group
// that is behind catches up and they merge: the reconvergence that hardware finds by its barriers. It is a matter of
// speed only. A group that jumps back many times while others wait gives way, so that threads of a warp may wait for
// each other.

namespace sim::exec {
namespace {

constexpr uint32_t kQuantum = 256;   // backward branches until another warp's turn

uint32_t first_lane(uint32_t mask) { return static_cast<uint32_t>(std::countr_zero(mask)); }

}  // namespace

void FreeBytes::operator()(std::byte* bytes) const { std::free(bytes); }

Bytes zeroed(size_t size) {
  auto* bytes = static_cast<std::byte*>(std::calloc(size + 64, 1));
  if (!bytes) throw std::bad_alloc();
  return Bytes(bytes);
}

Warp::Warp(Block& of, uint32_t number, uint32_t lanes)
    : block(of), index(number), stack_bytes_(of.grid.stack_bytes), lanes_(lanes) {
  if (stack_bytes_) stack_ = zeroed(size_t{stack_bytes_} * kLanes);
}

void Warp::start(const Function& kernel) {
  auto frame = std::make_shared<Frame>();
  frame->function = &kernel;
  frame->registers = zeroed(kernel.register_bytes);
  frame->constants = block.grid.image.constants(kernel.index);
  Fragment all;
  all.mask = lanes_ == kLanes ? kAllLanes : (1u << lanes_) - 1;
  all.frame = std::move(frame);
  fragments_.push_back(std::move(all));
}

uint32_t Warp::live() const {
  uint32_t all = running_ ? current_.mask : 0;
  for (const Fragment& fragment : fragments_) all |= fragment.mask;
  return all;
}

uint32_t Warp::waiting(uint32_t number) const {
  uint32_t all = 0;
  for (const Fragment& fragment : fragments_)
    if (fragment.state == Fragment::State::at_barrier && fragment.barrier == number) all |= fragment.mask;
  return all;
}

void Warp::merge() {
  for (size_t i = 0; i < fragments_.size(); ++i) {
    Fragment& into = fragments_[i];
    if (into.state != Fragment::State::ready || into.forced) continue;
    for (size_t k = fragments_.size(); k-- > i + 1;) {
      Fragment& from = fragments_[k];
      if (from.state != Fragment::State::ready || from.forced || from.pc != into.pc || from.frame != into.frame) continue;
      into.mask |= from.mask;
      into.last_run = std::max(into.last_run, from.last_run);
      if (k + 1 != fragments_.size()) from = std::move(fragments_.back());
      fragments_.pop_back();
    }
  }
}

void Warp::resume(size_t fragment) {
  current_ = std::move(fragments_[fragment]);
  if (fragment + 1 != fragments_.size()) fragments_[fragment] = std::move(fragments_.back());
  fragments_.pop_back();
  current_.last_run = ++clock_;
  code_ = current_.frame->function->ops.data();
  registers_ = current_.frame->registers.get();
  constants_ = current_.frame->constants;
  running_ = true;
}

void Warp::park(Fragment::State state) {
  current_.state = state;
  fragments_.push_back(std::move(current_));
  running_ = false;
}

bool Warp::choose(bool rotate) {
  if (fragments_.size() > 1) merge();
  size_t best = fragments_.size();
  for (size_t i = 0; i < fragments_.size(); ++i) {
    const Fragment& one = fragments_[i];
    if (one.state != Fragment::State::ready) continue;
    if (best == fragments_.size()) {
      best = i;
      continue;
    }
    const Fragment& other = fragments_[best];
    const bool better = rotate ? one.last_run < other.last_run
                        : one.frame->depth != other.frame->depth ? one.frame->depth > other.frame->depth
                                                                 : one.pc < other.pc;
    if (better) best = i;
  }
  if (best == fragments_.size()) return false;
  resume(best);
  limit_ = UINT32_MAX;
  if (!rotate)
    for (const Fragment& other : fragments_)
      if (other.state == Fragment::State::ready && other.frame->depth == current_.frame->depth &&
          other.pc > current_.pc)
        limit_ = std::min(limit_, other.pc);
  return true;
}

bool Warp::run() {
  budget_ = kQuantum;
  if (!choose()) return false;
  for (;;) {
    if (current_.pc >= limit_) {
      park();
      choose();
      continue;
    }
    const Op& op = code_[current_.pc];
    if (op.flow == Flow::plain) {
      mask = current_.mask;
      if (op.guard != kNone) mask &= op.guard_negated ? ~predicate(op.guard) : predicate(op.guard);
      if (mask) op.run(*this, op);
      ++current_.pc;
      continue;
    }
    if (step(op)) continue;
    // Other lanes, other warps, or nobody.
    if (running_) park();
    if (budget_ == 0) return true;
    const bool rotate = spins_ > kPatience;
    if (rotate) spins_ = 0;
    if (!choose(rotate)) return true;
  }
}

// One operation of control flow. False when somebody else may have to run now.
bool Warp::step(const Op& op) {
  uint32_t lanes = current_.mask;
  if (op.guard != kNone) lanes &= op.guard_negated ? ~predicate(op.guard) : predicate(op.guard);
  if (!lanes) {
    ++current_.pc;
    return true;
  }
  mask = lanes;
  switch (op.flow) {
    case Flow::plain:
      break;
    case Flow::converged:
    case Flow::warp_barrier:
      if (!converge(op, lanes)) return false;
      lanes = current_.mask;
      if (op.guard != kNone) lanes &= op.guard_negated ? ~predicate(op.guard) : predicate(op.guard);
      mask = lanes;
      if (op.run) op.run(*this, op);
      ++current_.pc;
      return true;
    case Flow::branch:
      return branch(lanes, op.target);
    case Flow::branch_table:
      return branch_table(op, lanes);
    case Flow::call:
      return call(op, lanes);
    case Flow::leave:
      return leave(op, lanes);
    case Flow::exit:
      return end(lanes);
    case Flow::barrier:
    case Flow::arrive:
      return barrier(op, lanes);
    case Flow::pause:
      if (op.run) op.run(*this, op);
      ++current_.pc;
      budget_ = 0;
      return false;
  }
  return true;
}

// Whether the lanes that a *.sync operation names are all here. If not, the current ones are parked.
bool Warp::converge(const Op& op, uint32_t lanes) {
  const uint32_t members = in<uint32_t>(op.e)[first_lane(lanes)];
  const uint32_t needed = members & live();
  if (current_.forced) {
    current_.forced = false;
    return true;
  }
  if (!(needed & ~current_.mask)) return true;
  for (size_t i = fragments_.size(); i-- > 0;) {
    Fragment& other = fragments_[i];
    if (other.state == Fragment::State::at_barrier || other.pc != current_.pc || other.frame != current_.frame) continue;
    current_.mask |= other.mask;
    if (i + 1 != fragments_.size()) other = std::move(fragments_.back());
    fragments_.pop_back();
  }
  if (!(needed & ~current_.mask)) return true;
  if (op.flow == Flow::warp_barrier && pass_warp_barrier(needed, current_.mask)) return true;
  park(Fragment::State::converging);
  return false;
}

// Lanes may meet at bar.warp.sync from different places.
bool Warp::pass_warp_barrier(uint32_t needed, uint32_t have) {
  const auto waits = [](const Fragment& other) {
    return other.state == Fragment::State::converging &&
           other.frame->function->ops[other.pc].flow == Flow::warp_barrier;
  };
  for (const Fragment& other : fragments_)
    if (waits(other)) have |= other.mask;
  if (needed & ~have) return false;
  for (Fragment& other : fragments_) {
    if (!waits(other) || !(other.mask & needed)) continue;
    other.state = Fragment::State::ready;
    ++other.pc;
  }
  limit_ = 0;  // look again who is first
  return true;
}

bool Warp::force() {
  Fragment* first = nullptr;
  for (Fragment& one : fragments_)
    if (one.state == Fragment::State::converging && (!first || one.pc < first->pc)) first = &one;
  if (!first) return false;
  first->state = Fragment::State::ready;
  first->forced = true;
  return true;
}

void Warp::release(uint32_t number, uint32_t value) {
  for (Fragment& one : fragments_) {
    if (one.state != Fragment::State::at_barrier || one.barrier != number) continue;
    const Op& op = one.frame->function->ops[one.pc];
    one.state = Fragment::State::ready;
    ++one.pc;
    if (op.d == kNone) continue;
    auto* result = reinterpret_cast<uint32_t*>(one.frame->registers.get() + op.d);
    if (op.wide) {  // a number
      for (unsigned lane = 0; lane < kLanes; ++lane)
        if (one.mask >> lane & 1) result[lane] = value;
    } else {
      *result = (*result & ~one.mask) | (value ? one.mask : 0);
    }
  }
}

void Warp::fail(const Op& op, Fault::Kind kind, unsigned lane, const std::string& what) {
  Fault fault;
  fault.kind = kind;
  const auto& size = block.grid.launch.block;
  const uint32_t thread = index * kLanes + lane;
  const auto triple = [](uint32_t x, uint32_t y, uint32_t z) {
    return "[" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + "]";
  };
  fault.message = what + ": kernel " + block.grid.kernel.name + ", block " +
                  triple(block.position[0], block.position[1], block.position[2]) + ", thread " +
                  triple(thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]) + ", line " +
                  std::to_string(op.line) + " of the PTX";
  throw Stop{std::move(fault)};
}

}  // namespace sim::exec
