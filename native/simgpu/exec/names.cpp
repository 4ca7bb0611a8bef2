// What names and numbers in operands mean: registers, constants, addresses.
#include <bit>
#include <string>

#include "exec/block.h"
#include "exec/builder.h"
#include "exec/floats.h"
#include "exec/lanes.h"
#include "ptx/lexer.h"

namespace sim::exec {
namespace {

using Space = ptx::Declaration::Space;

void frame_address(Warp& warp, const Op& op) {
  const uint64_t value = warp.frame().base + static_cast<uint64_t>(op.immediate);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!(warp.mask >> lane & 1)) continue;
    if (op.wide) warp.out<uint64_t>(op.d)[lane] = value;
    else warp.out<uint32_t>(op.d)[lane] = static_cast<uint32_t>(value);
  }
}

void dynamic_address(Warp& warp, const Op& op) {
  const uint64_t value = warp.block.grid.kernel.shared_bytes + static_cast<uint64_t>(op.immediate);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!(warp.mask >> lane & 1)) continue;
    if (op.wide) warp.out<uint64_t>(op.d)[lane] = value;
    else warp.out<uint32_t>(op.d)[lane] = static_cast<uint32_t>(value);
  }
}

std::string quoted(std::string_view name) { return std::string("'").append(name.substr(0, 80)).append("'"); }

}  // namespace

void Builder::declare(const ptx::Declaration& declaration) {
  Scope& scope = scopes_.back();
  if (declaration.space == Space::reg) {
    if (declaration.vector != 1 || declaration.elements != 1)
      throw ptx::Rejected{declaration.line, "vector registers are not supported"};
    if (declaration.type == Type::b128) throw ptx::Rejected{declaration.line, "128-bit registers are not supported"};
    if (declaration.family) {
      scope.families.push_back({declaration.name, declaration.family, declaration.type});
      return;
    }
    Symbol symbol;
    symbol.type = declaration.type;
    scope.symbols[std::string(declaration.name)] = symbol;
    return;
  }
  Symbol symbol;
  symbol.type = declaration.type;
  if (declaration.bytes() > UINT32_MAX) throw ptx::Rejected{declaration.line, "a variable is too large"};
  symbol.size = static_cast<uint32_t>(declaration.bytes());
  if (declaration.space == Space::local) {
    symbol.kind = Symbol::Kind::local;
    symbol.place = static_cast<int32_t>(frame_room(symbol.size, declaration.align));
  } else if (declaration.space == Space::param) {
    symbol.kind = Symbol::Kind::parameter;
    symbol.place = static_cast<int32_t>(frame_room(std::max(symbol.size, 8u), std::max(declaration.align, 8u)));
  } else if (declaration.space == Space::shared) {
    symbol.kind = Symbol::Kind::shared;
    if (!entry()) {
      symbol.place = static_cast<int32_t>(names_.inner_shared.at(&declaration));
    } else {
      const uint64_t place = (uint64_t{shared_bytes_} + declaration.align - 1) & ~uint64_t{declaration.align - 1};
      if (place + symbol.size > (1u << 24)) throw ptx::Rejected{declaration.line, "too much shared memory"};
      symbol.place = static_cast<int32_t>(place);
      shared_bytes_ = static_cast<uint32_t>(place) + symbol.size;
    }
  } else {
    throw ptx::Rejected{declaration.line, "not allowed inside a function"};
  }
  scope.symbols[std::string(declaration.name)] = symbol;
}

Builder::Symbol* Builder::find(std::string_view name) {
  const std::string key(name);
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  uint64_t number = 0;
  const bool numbered = digits < name.size() && name.size() - digits < 9 &&
                        ptx::integer_from(name.substr(digits) == "0" || name[digits] != '0' ? name.substr(digits) : "x", number);
  for (size_t i = scopes_.size(); i-- > 0;) {
    Scope& scope = scopes_[i];
    const auto found = scope.symbols.find(key);
    if (found != scope.symbols.end()) return &found->second;
    if (!numbered) continue;
    for (const Family& family : scope.families) {
      if (family.prefix != name.substr(0, digits) || number >= family.count) continue;
      Symbol symbol;
      symbol.type = family.type;
      return &(scope.symbols[key] = symbol);
    }
  }
  return nullptr;
}

Builder::Symbol& Builder::register_named(std::string_view name) {
  Symbol* symbol = find(name);
  if (!symbol || symbol->kind != Symbol::Kind::reg) reject("no register " + quoted(name));
  if (symbol->place == kNone) symbol->place = register_room(bytes_of(symbol->type));
  return *symbol;
}

int32_t Builder::special(std::string_view name, bool wide) {
  bool has = false;
  const Run run = special_register(name, has);
  if (!run) return kNone;
  const int32_t place = temporary(has || wide ? 8 : 4);
  if (has == wide) {
    emit(run).d = place;
  } else if (wide) {  // mov.u64 of a 32-bit special register
    const int32_t narrow = temporary(4);
    emit(run).d = narrow;
    Op& op = emit(lanes([](uint32_t value) { return uint64_t{value}; }));
    op.d = place;
    op.a = narrow;
  } else {
    const int32_t full = temporary(8);
    emit(run).d = full;
    Op& op = emit(lanes([](uint64_t value) { return static_cast<uint32_t>(value); }));
    op.d = place;
    op.a = full;
  }
  return place;
}

int32_t Builder::address_of(std::string_view name, uint64_t offset, bool wide) {
  if (const Symbol* symbol = find(name)) {
    const uint64_t place = static_cast<uint32_t>(symbol->place) + offset;
    if (symbol->kind == Symbol::Kind::kernel_parameter || symbol->kind == Symbol::Kind::shared)
      return wide ? constant64(place) : constant32(static_cast<uint32_t>(place));
    const int32_t result = temporary(wide ? 8 : 4);
    Op& op = emit(frame_address);
    op.d = result;
    op.wide = wide;
    op.immediate = static_cast<int64_t>(place);
    return result;
  }
  if (const auto found = names_.shared.find(name); found != names_.shared.end()) {
    if (!found->second.dynamic) {
      const uint64_t place = found->second.offset + offset;
      return wide ? constant64(place) : constant32(static_cast<uint32_t>(place));
    }
    const int32_t result = temporary(wide ? 8 : 4);
    Op& op = emit(dynamic_address);
    op.d = result;
    op.wide = wide;
    op.immediate = static_cast<int64_t>(offset);
    return result;
  }
  const auto variable = names_.variables.find(name);
  const auto function = names_.functions.find(name);
  if (variable == names_.variables.end() && function == names_.functions.end()) reject("unknown name " + quoted(name));
  if (!wide) reject("an address of 32 bits");
  if (variable != names_.variables.end()) return constant({Constant::Kind::variable, true, offset, variable->second});
  return constant({Constant::Kind::function, true, offset, function->second});
}

int32_t Builder::immediate(const Operand& operand, Type type) {
  const unsigned bytes = bytes_of(type);
  uint64_t bits = operand.value;
  if (operand.kind == Operand::Kind::single) {
    if (type == Type::f64) bits = std::bit_cast<uint64_t>(double{std::bit_cast<float>(static_cast<uint32_t>(bits))});
    else if (bytes == 2) reject("a constant of 32 bits for 16");
  } else if (operand.kind == Operand::Kind::real) {
    const double value = std::bit_cast<double>(bits);
    if (bytes == 4) bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    else if (type == Type::f16) bits = half_from(value).bits;
    else if (bytes != 8) reject("a floating-point constant of this type");
  } else if (type == Type::f32 || type == Type::f64) {
    reject("an integer constant where a floating-point one must be");
  }
  if (bytes == 8) return constant64(bits);
  return constant32(static_cast<uint32_t>(bytes == 4 ? bits : bits & ((1ull << bytes * 8) - 1)));
}

int32_t Builder::read(const Operand& operand, Type type) {
  bool wide = false;
  if (type == Type::pred) return read_predicate(operand);
  const int32_t place = read_wider(operand, type, wide);
  if (operand.kind == Operand::Kind::name) {
    const Symbol* symbol = find(operand.name);
    if (symbol && symbol->kind == Symbol::Kind::reg && bytes_of(symbol->type) != bytes_of(type))
      reject("register " + quoted(operand.name) + " has another size");
  }
  return place;
}

int32_t Builder::read_wider(const Operand& operand, Type type, bool& wide) {
  wide = bytes_of(type) == 8;
  if (bytes_of(type) == 0 || bytes_of(type) > 8) reject("an operand of this type");
  if (operand.negated || !operand.second.empty()) reject("an operand of this form");
  switch (operand.kind) {
    case Operand::Kind::integer:
    case Operand::Kind::single:
    case Operand::Kind::real:
      return immediate(operand, type);
    case Operand::Kind::name: {
      const Symbol* symbol = find(operand.name);
      if (symbol && symbol->kind == Symbol::Kind::reg) {
        if (operand.value) reject("a register with an offset");
        const Symbol& found = register_named(operand.name);
        if (found.type == Type::pred) reject(quoted(operand.name) + " is a predicate");
        if (bytes_of(found.type) < bytes_of(type)) reject("register " + quoted(operand.name) + " is too small");
        wide = bytes_of(found.type) == 8;
        return found.place;
      }
      if (!symbol && (operand.name.starts_with('%') || operand.name == "WARP_SZ")) {
        const int32_t place = special(operand.name, wide);
        if (place != kNone) return place;
      }
      return address_of(operand.name, operand.value, wide);
    }
    default:
      reject("an operand of this form");
  }
}

int32_t Builder::write(const Operand& operand, Type type) {
  bool wide = false;
  if (type == Type::pred) return write_predicate(operand.name);
  if (operand.kind == Operand::Kind::blank) return temporary(bytes_of(type));
  const int32_t place = write_wider(operand, type, wide);
  if (bytes_of(register_named(operand.name).type) != bytes_of(type))
    reject("register " + quoted(operand.name) + " has another size");
  return place;
}

int32_t Builder::write_wider(const Operand& operand, Type type, bool& wide) {
  if (operand.kind == Operand::Kind::blank) {
    wide = bytes_of(type) == 8;
    return temporary(bytes_of(type));
  }
  if (operand.kind != Operand::Kind::name || operand.negated || operand.value) reject("a register must be written");
  const Symbol& found = register_named(operand.name);
  if (found.type == Type::pred || bytes_of(found.type) < bytes_of(type))
    reject("register " + quoted(operand.name) + " is too small");
  wide = bytes_of(found.type) == 8;
  return found.place;
}

int32_t Builder::write_predicate(std::string_view name) {
  if (name.empty()) return temporary(0);
  const Symbol& found = register_named(name);
  if (found.type != Type::pred) reject(quoted(name) + " is no predicate");
  return found.place;
}

int32_t Builder::read_predicate(const Operand& operand) {
  if (operand.kind == Operand::Kind::integer) return constant32(operand.value ? kAllLanes : 0);
  if (operand.kind != Operand::Kind::name) reject("a predicate must be read");
  const int32_t place = write_predicate(operand.name);
  if (!operand.negated) return place;
  const int32_t result = temporary(0);
  Op& op = emit([](Warp& warp, const Op& self) { warp.set_predicate(self.d, ~warp.predicate(self.a)); });
  op.d = result;
  op.a = place;
  return result;
}

void Builder::address(Op& op, const Operand& operand) {
  if (operand.kind != Operand::Kind::address) reject("an address must be in brackets");
  op.immediate = static_cast<int64_t>(operand.value);
  op.a = kNone;
  if (operand.name.empty()) return;
  const Symbol* symbol = find(operand.name);
  if (symbol && symbol->kind == Symbol::Kind::reg) {
    const Symbol& base = register_named(operand.name);
    if (bytes_of(base.type) < 4) reject("an address register must have 32 or 64 bits");
    op.wide = bytes_of(base.type) == 8;
    op.a = base.place;
  } else if (symbol && (symbol->kind == Symbol::Kind::local || symbol->kind == Symbol::Kind::parameter)) {
    op.memory = Memory::frame;
    op.immediate += symbol->place;
  } else {
    op.wide = true;
    op.a = address_of(operand.name, operand.value, true);
    op.immediate = 0;
  }
}

Slot Builder::parameter_place(const Operand& operand, bool& found) {
  const Symbol* symbol = operand.kind == Operand::Kind::name ? find(operand.name) : nullptr;
  found = symbol && symbol->kind == Symbol::Kind::parameter;
  return found ? Slot{static_cast<uint32_t>(symbol->place), symbol->size} : Slot{};
}

}  // namespace sim::exec
