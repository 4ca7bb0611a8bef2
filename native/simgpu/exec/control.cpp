// Branches, calls, barriers and ends.
#include <thread>

#include "exec/apply.h"

namespace sim::exec {
namespace {

void bra(Builder& b) {
  b.take("uni");
  b.expect_operands(1, 1);
  const uint32_t to = b.label(b.operand(0).name);
  b.flow(Flow::branch).target = to;
}

void brx(Builder& b) {
  if (!b.take("idx")) b.reject("expected .idx");
  b.take("uni");
  b.expect_operands(2, 2);
  const ptx::Targets* targets = b.targets(b.operand(1).name);
  if (!targets || targets->names.empty()) b.reject("no list of targets of this name");
  std::vector<uint32_t> table;
  for (const auto name : targets->names) table.push_back(b.label(name));
  const int32_t index = b.read(b.operand(0), Type::u32);
  b.function().tables.push_back(std::move(table));
  Op& op = b.flow(Flow::branch_table);
  op.a = index;
  op.target = static_cast<uint32_t>(b.function().tables.size() - 1);
}

Slot place(Builder& b, const Operand& operand) {
  bool found = false;
  const Slot slot = b.parameter_place(operand, found);
  if (!found) b.reject("an argument must be a .param variable");
  return slot;
}

// call (results), function or register, (arguments), list or prototype
void call(Builder& b) {
  b.take("uni");
  b.done();
  CallSite site;
  size_t at = 0;
  if (b.operand(at).kind == Operand::Kind::vector) {
    for (const Operand& one : b.operand(at).items) site.results.push_back(place(b, one));
    ++at;
  }
  const Operand& callee = b.operand(at++);
  if (callee.kind != Operand::Kind::name) b.reject("expected a function");
  if (at < b.operands() && b.operand(at).kind == Operand::Kind::vector) {
    for (const Operand& one : b.operand(at).items) site.arguments.push_back(place(b, one));
    ++at;
  }
  const auto direct = b.names().functions.find(callee.name);
  if (direct != b.names().functions.end()) {
    site.function = direct->second;
    for (const auto& source : b.names().source->functions)
      if (source.name == callee.name && (source.entry || source.parameters.size() != site.arguments.size() || source.results.size() < site.results.size()))
        b.reject("the call does not fit the function");
  } else {
    site.indirect = true;
    site.pointer = b.read(callee, Type::u64);
  }
  b.function().calls.push_back(std::move(site));
  b.flow(Flow::call).target = static_cast<uint32_t>(b.function().calls.size() - 1);
}

void ret(Builder& b) {
  b.take("uni");
  b.expect_operands(0, 0);
  b.flow(Flow::leave);
}

void end(Builder& b) {
  b.expect_operands(0, 0);
  b.flow(Flow::exit);
}

[[noreturn]] void stop(Warp& w, const Op& op) {
  w.fail(op, Fault::Kind::trap, static_cast<unsigned>(std::countr_zero(w.mask)), "trap");
}

void trap(Builder& b) {
  b.expect_operands(0, 0);
  b.emit(stop);
}

// bar and barrier: {.cta}.sync, .arrive, .red.{popc.u32,and.pred,or.pred}; bar.warp.sync
void bar(Builder& b) {
  if (b.take("warp")) {
    if (!b.take("sync")) b.reject("expected .sync");
    b.expect_operands(1, 1);
    const int32_t members = b.read(b.operand(0), Type::u32);
    b.flow(Flow::warp_barrier).e = members;
    return;
  }
  if (b.take("cluster")) b.reject("clusters are not supported");
  b.take("cta");
  const bool arrives = b.take("arrive"), reduces = b.take("red");
  if (!arrives && !reduces && !b.take("sync")) b.reject("expected .sync, .arrive or .red");
  Op op;
  op.flow = arrives ? Flow::arrive : Flow::barrier;
  op.mode = 0;
  if (reduces) {
    op.mode = b.take("popc") ? 0 : b.take("and") ? 1 : b.take("or") ? 2 : 9;
    if (op.mode == 9) b.reject("unknown reduction");
  }
  b.take("aligned");
  Type type = Type::none;
  if (reduces) type = b.take_type();
  b.take("aligned");
  b.done();
  size_t at = reduces ? 1 : 0;
  const size_t most = reduces ? 4 : 2;
  if (b.operands() < at + 1 || b.operands() > most || (arrives && b.operands() != 2)) b.reject("wrong number of operands");
  op.a = b.read(b.operand(at++), Type::u32);
  if (at < b.operands() - (reduces ? 1 : 0)) op.b = b.read(b.operand(at++), Type::u32);
  if (reduces) {
    op.c = b.read_predicate(b.operand(at));
    op.wide = op.mode == 0;
    if (type != (op.wide ? Type::u32 : Type::pred)) b.reject("not for this type");
    op.d = b.write(b.operand(0), type);
  }
  b.add(op);
}

void nanosleep(Builder& b) {
  if (!b.take("u32")) b.reject("not for this type");
  b.expect_operands(1, 1);
  b.read(b.operand(0), Type::u32);
  b.flow(Flow::pause).run = [](Warp&, const Op&) { std::this_thread::yield(); };
}

void ignored(Builder& b) {  // pmevent, brkpt without a debugger
  while (!b.peek().empty()) b.take(b.peek());
}

const Instructions known{{"bra", bra}, {"brx", brx}, {"call", call}, {"ret", ret}, {"exit", end}, {"trap", trap},
                         {"brkpt", trap}, {"bar", bar}, {"barrier", bar}, {"nanosleep", nanosleep}, {"pmevent", ignored}};

}  // namespace
}  // namespace sim::exec
