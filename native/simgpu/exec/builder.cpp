#include "exec/builder.h"

#include <bit>

namespace sim::exec {
namespace {

constexpr uint64_t kFrameLimit = 1u << 22;      // bytes of a thread's frame
constexpr uint64_t kRegisterLimit = 1u << 26;   // bytes of a warp's registers
constexpr size_t kOpLimit = 1u << 22;

bool uses_shared(const Operand& operand, const Names& names) {
  if (names.shared.contains(operand.name)) return true;
  for (const Operand& item : operand.items)
    if (uses_shared(item, names)) return true;
  return false;
}

}  // namespace

Builder::Builder(const Names& names, const ptx::FunctionSource& source, Function& out)
    : names_(names), source_(source), out_(out) {
  if (!source.entry) return;
  for (const auto& instruction : source.instructions) {
    bool uses = instruction.parts[0] == "call";
    for (const Operand& operand : instruction.operands) uses |= uses_shared(operand, names);
    if (uses) shared_bytes_ = names.shared_bytes;
  }
}

void Builder::reject(const std::string& what) const {
  if (!now_) throw ptx::Rejected{source_.line, what};
  throw ptx::Rejected{now_->line, std::string(what).append(" in '").append(now_->opcode.substr(0, 80)).append("'")};
}

bool Builder::take(std::string_view word) {
  if (peek() != word) return false;
  ++word_;
  return true;
}

std::string_view Builder::peek() const {
  return word_ < now_->parts.size() ? now_->parts[word_] : std::string_view();
}

Type Builder::take_type() {
  const Type type = ptx::type_named(peek());
  if (type == Type::none) reject("expected a type");
  ++word_;
  return type;
}

void Builder::done() {
  if (word_ < now_->parts.size()) reject(std::string("unknown part '.").append(peek().substr(0, 40)).append("'"));
}

const Operand& Builder::operand(size_t i) const {
  if (i >= now_->operands.size()) reject("an operand is missing");
  return now_->operands[i];
}

void Builder::expect_operands(size_t least, size_t most) {
  done();
  if (operands() < least || operands() > most) reject("wrong number of operands");
}

Op& Builder::emit(Run run) {
  Op op;
  op.run = run;
  return add(op);
}

Op& Builder::add(Op op) {
  if (out_.ops.size() >= kOpLimit) reject("the function is too long");
  op.guard = guard_;
  op.guard_negated = now_ && now_->guard_negated;
  op.line = now_ ? now_->line : source_.line;
  out_.ops.push_back(op);
  return out_.ops.back();
}

Op& Builder::flow(Flow flow) {
  Op& op = emit(nullptr);
  op.flow = flow;
  return op;
}

uint32_t Builder::frame_room(uint64_t size, uint32_t align) {
  align = std::min(align, 128u);
  const uint64_t place = (uint64_t{out_.frame_bytes} + align - 1) & ~uint64_t{align - 1};
  if (size > kFrameLimit || place + size > kFrameLimit) reject("the function needs too much local memory");
  out_.frame_bytes = static_cast<uint32_t>(place + size);
  return static_cast<uint32_t>(place);
}

int32_t Builder::register_room(unsigned bytes) {
  const uint32_t size = bytes == 0 ? 64 : bytes <= 4 ? kLanes * 4 : kLanes * 8;
  const uint32_t place = out_.register_bytes;
  if (place + uint64_t{size} > kRegisterLimit) reject("the function has too many registers");
  out_.register_bytes += size;
  return static_cast<int32_t>(place);
}

int32_t Builder::temporary(unsigned bytes) { return register_room(bytes); }

int32_t Builder::constant(const Constant& constant) {
  for (size_t i = 0; i < out_.constants.size(); ++i)
    if (out_.constants[i] == constant) return -static_cast<int32_t>((i + 1) * kConstantBytes);
  if (out_.constants.size() >= (1u << 20)) reject("the function has too many constants");
  out_.constants.push_back(constant);
  return -static_cast<int32_t>(out_.constants.size() * kConstantBytes);
}

void Builder::declare_parameters() {
  uint64_t offset = 0;
  for (const bool results : {true, false}) {
    for (const auto& one : results ? source_.results : source_.parameters) {
      Symbol symbol;
      symbol.type = one.type;
      symbol.size = static_cast<uint32_t>(one.bytes());
      if (one.space == ptx::Declaration::Space::reg) {  // passes by the frame, lives in a register
        if (one.type == Type::pred || one.type == Type::b128) reject("a parameter register of this type");
        Slot slot{frame_room(8, 8), bytes_of(one.type)};
        (results ? out_.results : out_.parameters).push_back(slot);
        symbol.kind = Symbol::Kind::reg;
        symbol.place = register_room(bytes_of(one.type));
      } else if (source_.entry) {
        offset = (offset + one.align - 1) & ~uint64_t{one.align - 1};
        symbol.kind = Symbol::Kind::kernel_parameter;
        symbol.place = static_cast<int32_t>(offset);
        offset += one.bytes();
        if (offset > 32764) reject("the parameters are too large");
      } else {
        symbol.kind = Symbol::Kind::parameter;
        symbol.place = static_cast<int32_t>(frame_room(symbol.size, one.align));
        Slot slot{static_cast<uint32_t>(symbol.place), symbol.size};
        (results ? out_.results : out_.parameters).push_back(slot);
      }
      scopes_.back().symbols[std::string(one.name)] = symbol;
    }
  }
}

void Builder::find_labels() {
  std::vector<uint32_t> path{0};
  parents_ = {-1};
  for (size_t i = 0; i < source_.items.size(); ++i) {
    const ptx::Item& item = source_.items[i];
    if (item.kind == ptx::Item::Kind::open) {
      parents_.push_back(static_cast<int32_t>(path.back()));
      path.push_back(static_cast<uint32_t>(parents_.size() - 1));
    } else if (item.kind == ptx::Item::Kind::close) {
      path.pop_back();
    } else if (item.kind == ptx::Item::Kind::label) {
      if (!labels_.emplace(std::pair(path.back(), item.name), static_cast<uint32_t>(i)).second)
        throw ptx::Rejected{item.line, std::string("label '").append(item.name).append("' is there twice")};
    } else if (item.kind == ptx::Item::Kind::targets) {
      target_lists_[{path.back(), item.name}] = item.index;
    }
  }
}

uint32_t Builder::label(std::string_view name) const {
  for (int32_t scope = static_cast<int32_t>(scopes_.back().number); scope >= 0; scope = parents_[scope]) {
    const auto found = labels_.find({static_cast<uint32_t>(scope), name});
    if (found != labels_.end()) return found->second;
  }
  reject(std::string("no label '").append(name).append("'"));
}

const ptx::Targets* Builder::targets(std::string_view name) const {
  for (int32_t scope = static_cast<int32_t>(scopes_.back().number); scope >= 0; scope = parents_[scope]) {
    const auto found = target_lists_.find({static_cast<uint32_t>(scope), name});
    if (found != target_lists_.end()) return &source_.targets[found->second];
  }
  return nullptr;
}

void Builder::declare_only() {
  scopes_.emplace_back();
  declare_parameters();
}

void Builder::translate() {
  find_labels();
  scopes_.emplace_back();
  declare_parameters();
  op_of_item_.resize(source_.items.size() + 1);
  uint32_t scope_count = 0;
  for (size_t i = 0; i < source_.items.size(); ++i) {
    const ptx::Item& item = source_.items[i];
    op_of_item_[i] = static_cast<uint32_t>(out_.ops.size());
    switch (item.kind) {
      case ptx::Item::Kind::open:
        scopes_.emplace_back();
        scopes_.back().number = ++scope_count;
        break;
      case ptx::Item::Kind::close:
        scopes_.pop_back();
        break;
      case ptx::Item::Kind::declaration:
        declare(source_.declarations[item.index]);
        break;
      case ptx::Item::Kind::label:
      case ptx::Item::Kind::targets:
        break;
      case ptx::Item::Kind::instruction: {
        now_ = &source_.instructions[item.index];
        word_ = 1;
        const Translate translate = translator(now_->parts[0]);
        if (!translate) reject("unknown instruction");
        guard_ = kNone;
        if (!now_->guard.empty()) guard_ = register_named(now_->guard).type == Type::pred
                                               ? register_named(now_->guard).place
                                               : (reject("a guard must be a predicate"), 0);
        translate(*this);
        guard_ = kNone;
        break;
      }
    }
  }
  now_ = nullptr;
  op_of_item_.back() = static_cast<uint32_t>(out_.ops.size());
  flow(Flow::leave);
  for (Op& op : out_.ops)
    if (op.flow == Flow::branch) op.target = op_of_item_[op.target];
  for (auto& table : out_.tables)
    for (uint32_t& target : table) target = op_of_item_[target];
  out_.frame_bytes = (out_.frame_bytes + 31) & ~15u;
}

}  // namespace sim::exec
