// Branches, calls, returns and barriers of a warp.
#include <bit>
#include <cstring>
#include <iterator>

#include "exec/block.h"
#include "exec/print.h"
#include "exec/warp.h"

namespace sim::exec {

void Warp::put(uint32_t lanes, uint32_t pc) {
  if (!lanes) return;
  Fragment fragment;
  fragment.mask = lanes;
  fragment.pc = pc;
  fragment.frame = current_.frame;
  fragment.last_run = clock_;
  fragments_.push_back(std::move(fragment));
}

bool Warp::branch(uint32_t taken, uint32_t target) {
  const uint32_t here = current_.pc;
  const uint32_t rest = current_.mask & ~taken;
  if (rest) {
    if (target <= here) {
      put(rest, here + 1);
      limit_ = std::min(limit_, here + 1);
      current_.mask = taken;
      current_.pc = target;
    } else {
      put(taken, target);
      limit_ = std::min(limit_, target);
      current_.mask = rest;
      current_.pc = here + 1;
      return true;
    }
  } else {
    current_.pc = target;
  }
  if (target > here) return true;
  spins_ = fragments_.empty() ? 0 : spins_ + 1;
  if (spins_ > kPatience) return false;
  return --budget_ != 0;
}

bool Warp::branch_table(const Op& op, uint32_t lanes) {
  const auto& table = current_.frame->function->tables[op.target];
  const uint32_t* chosen = in<uint32_t>(op.a);
  put(current_.mask & ~lanes, current_.pc + 1);
  bool back = false;
  while (lanes) {
    const unsigned first = std::countr_zero(lanes);
    const uint32_t entry = chosen[first];
    if (entry >= table.size()) fail(op, Fault::Kind::illegal_instruction, first, "a branch leaves its table");
    uint32_t same = 0;
    for (unsigned lane = first; lane < kLanes; ++lane)
      if ((lanes >> lane & 1) && chosen[lane] == entry) same |= 1u << lane;
    put(same, table[entry]);
    back |= table[entry] <= current_.pc;
    lanes &= ~same;
  }
  running_ = false;
  if (back && budget_ > 1) --budget_;
  return false;
}

bool Warp::end(uint32_t lanes) {
  current_.mask &= ~lanes;
  ++current_.pc;
  running_ = current_.mask != 0;
  return running_;
}

bool Warp::call(const Op& op, uint32_t lanes) {
  const CallSite& site = current_.frame->function->calls[op.target];
  const auto& functions = block.grid.image.program().functions;
  uint32_t which = site.function;
  uint32_t others = 0;
  if (site.indirect) {
    const uint64_t* pointers = in<uint64_t>(site.pointer);
    const unsigned first = std::countr_zero(lanes);
    const uint64_t pointer = pointers[first];
    for (which = 0; which < functions.size(); ++which)
      if (reinterpret_cast<uint64_t>(functions[which].get()) == pointer) break;
    if (which == functions.size() || functions[which]->entry)
      fail(op, Fault::Kind::invalid_pc, first, "an indirect call of what is no function");
    for (unsigned lane = first; lane < kLanes; ++lane)
      if ((lanes >> lane & 1) && pointers[lane] != pointer) others |= 1u << lane;
    lanes &= ~others;
  }
  const Function& callee = *functions[which];
  if (callee.parameters.size() != site.arguments.size() || callee.results.size() < site.results.size())
    fail(op, Fault::Kind::illegal_instruction, std::countr_zero(lanes), "a call does not fit " + callee.name);
  if (callee.builtin != Builtin::none) {
    mask = lanes;
    builtin(op, site, callee.builtin, lanes);
    const uint32_t rest = current_.mask & ~others;
    put(others, current_.pc);
    current_.mask = rest;
    ++current_.pc;
    return others == 0;
  }
  if (!callee.defined)
    fail(op, Fault::Kind::invalid_pc, std::countr_zero(lanes), "function " + callee.name + " is not defined");

  auto frame = std::make_shared<Frame>();
  frame->function = &callee;
  frame->depth = current_.frame->depth + 1;
  frame->base = (current_.frame->base + current_.frame->function->frame_bytes + 15) & ~15u;
  // Every call takes some of the stack, as it does on hardware, so that endless recursion ends.
  if (uint64_t{frame->base} + callee.frame_bytes > stack_bytes_ || frame->depth > 65536)
    fail(op, Fault::Kind::stack_error, std::countr_zero(lanes), "the stack is full");
  frame->registers = zeroed(callee.register_bytes);
  frame->constants = block.grid.image.constants(which);
  frame->caller = current_.frame;
  frame->return_to = current_.pc + 1;
  frame->site = &site;
  for (size_t i = 0; i < site.arguments.size(); ++i) {
    const Slot from = site.arguments[i], to = callee.parameters[i];
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if (lanes >> lane & 1)
        std::memcpy(stack(lane) + frame->base + to.offset, stack(lane) + current_.frame->base + from.offset,
                    std::min(from.size, to.size));
  }
  put(others, current_.pc);
  put(current_.mask & ~lanes & ~others, current_.pc + 1);
  current_.mask = lanes;
  current_.pc = 0;
  current_.frame = std::move(frame);
  return false;
}

bool Warp::leave(const Op&, uint32_t lanes) {
  const std::shared_ptr<Frame> frame = current_.frame;
  if (!frame->caller) return end(lanes);
  const CallSite& site = *frame->site;
  for (size_t i = 0; i < site.results.size(); ++i) {
    const Slot from = frame->function->results[i], to = site.results[i];
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if (lanes >> lane & 1)
        std::memcpy(stack(lane) + frame->caller->base + to.offset, stack(lane) + frame->base + from.offset,
                    std::min(from.size, to.size));
  }
  put(current_.mask & ~lanes, current_.pc + 1);
  current_.mask = lanes;
  current_.pc = frame->return_to;
  current_.frame = frame->caller;
  return false;
}

bool Warp::barrier(const Op& op, uint32_t lanes) {
  const unsigned first = std::countr_zero(lanes);
  const uint32_t number = in<uint32_t>(op.a)[first];
  if (number > 15) fail(op, Fault::Kind::illegal_instruction, first, "there is no such barrier");
  Block::Barrier& barrier = block.barrier(number);
  barrier.expected = op.b == kNone ? 0 : in<uint32_t>(op.b)[first];
  barrier.mode = op.mode;
  if (op.c != kNone) {
    const uint32_t bits = predicate(op.c);
    barrier.count += std::popcount((op.sign ? ~bits : bits) & lanes);
  }
  if (op.flow == Flow::arrive) {
    barrier.arrived += std::popcount(lanes);
    ++current_.pc;
    return true;
  }
  put(current_.mask & ~lanes, current_.pc + 1);
  current_.mask = lanes;
  current_.barrier = number;
  park(Fragment::State::at_barrier);
  return false;
}

void Warp::builtin(const Op& op, const CallSite& site, Builtin which, uint32_t lanes) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!(lanes >> lane & 1)) continue;
    uint64_t words[5] = {};
    for (size_t i = 0; i < site.arguments.size() && i < std::size(words); ++i)
      std::memcpy(&words[i], stack(lane) + current_.frame->base + site.arguments[i].offset,
                  std::min<size_t>(site.arguments[i].size, 8));
    DeviceText text(*this, op, lane);
    if (which == Builtin::assertfail) {
      const auto& size = block.grid.launch.block;
      const uint32_t thread = index * kLanes + lane;
      const auto triple = [](uint32_t x, uint32_t y, uint32_t z) {
        return "[" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + "]";
      };
      Fault fault;
      fault.kind = Fault::Kind::assertion;
      fault.message = text.read(words[1]) + ":" + std::to_string(static_cast<uint32_t>(words[2])) + ": " +
                      text.read(words[3]) + ": block: " +
                      triple(block.position[0], block.position[1], block.position[2]) + ", thread: " +
                      triple(thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]) +
                      " Assertion `" + text.read(words[0]) + "` failed.";
      throw Stop{std::move(fault)};
    }
    const std::string printed = text.format(words[0], words[1]);
    if (block.grid.launch.printer) block.grid.launch.printer->print(printed);
    if (!site.results.empty() && site.results[0].size >= 4) {
      const int32_t length = static_cast<int32_t>(text.arguments());
      std::memcpy(stack(lane) + current_.frame->base + site.results[0].offset, &length, 4);
    }
  }
}

}  // namespace sim::exec
