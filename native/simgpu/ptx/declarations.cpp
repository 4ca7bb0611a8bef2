// Declarations of registers, variables and parameters.
#include "ptx/parser.h"

namespace sim::ptx {
namespace {

constexpr uint64_t kLargest = 1ull << 40;  // bytes of one variable
constexpr size_t kInitial = 1u << 26;      // elements of one initialiser

}  // namespace

bool Parser::declares(std::string_view word, Declaration::Space& space) {
  using Space = Declaration::Space;
  if (word == ".reg") space = Space::reg;
  else if (word == ".local") space = Space::local;
  else if (word == ".shared") space = Space::shared;
  else if (word == ".param") space = Space::param;
  else if (word == ".global") space = Space::global;
  else if (word == ".const") space = Space::constant;
  else return false;
  return true;
}

uint32_t Parser::small_number(uint64_t limit) {
  uint64_t value = 0;
  if (!integer_from(lexer_.peek(), value) || value > limit) lexer_.reject("expected a smaller number");
  lexer_.next();
  return static_cast<uint32_t>(value);
}

std::array<uint32_t, 3> Parser::triple() {
  std::array<uint32_t, 3> result{1, 1, 1};
  unsigned i = 0;
  do {
    if (i == 3) lexer_.reject("too many dimensions");
    result[i++] = small_number(INT32_MAX);
  } while (lexer_.take(","));
  return result;
}

// Everything between the space and the name: alignment, vector, type, and what pointers promise.
void Parser::shape(Declaration& declaration) {
  declaration.line = lexer_.line();
  while (lexer_.peek().starts_with(".")) {
    const std::string_view word = lexer_.next();
    if (word == ".align") {
      declaration.align = small_number(1u << 20);
      if (!declaration.align || (declaration.align & (declaration.align - 1)))
        lexer_.reject("an alignment must be a power of two");
    } else if (word == ".v2" || word == ".v4") {
      declaration.vector = word == ".v2" ? 2 : 4;
    } else if (word == ".ptr") {
      while (lexer_.peek() == ".global" || lexer_.peek() == ".const" || lexer_.peek() == ".shared" ||
             lexer_.peek() == ".local")
        lexer_.next();
      if (lexer_.take(".align")) small_number(1u << 20);
    } else if (word == ".attribute") {
      lexer_.expect("(");
      while (!lexer_.take(")")) {
        if (lexer_.take(".managed")) declaration.managed = true;
        else lexer_.next();
      }
    } else if (const Type type = type_named(word.substr(1)); type != Type::none && declaration.type == Type::none) {
      declaration.type = type;
    } else {
      throw Rejected{declaration.line, "unknown word '" + std::string(word.substr(0, 60)) + "' in a declaration"};
    }
  }
  if (declaration.type == Type::none) lexer_.reject("a declaration needs a type");
  if (declaration.type == Type::pred && declaration.space != Declaration::Space::reg)
    lexer_.reject("a predicate must be a register");
  if (!declaration.align) declaration.align = std::max(1u, bytes_of(declaration.type) * declaration.vector);
}

void Parser::initial(Declaration& declaration, unsigned depth) {
  if (declaration.initial.size() > kInitial || depth > 4) lexer_.reject("an initialiser is too large");
  if (lexer_.take("{")) {
    if (lexer_.take("}")) return;
    do initial(declaration, depth + 1);
    while (lexer_.take(","));
    lexer_.expect("}");
    return;
  }
  if (!is_name(lexer_.peek())) {
    declaration.initial.push_back(constant());
    return;
  }
  const bool generic = lexer_.take("generic");
  if (generic) lexer_.expect("(");
  Operand value;
  value.kind = Operand::Kind::name;
  value.name = lexer_.next();
  if (generic) lexer_.expect(")");
  if (lexer_.peek() == "+" || lexer_.peek() == "-") {
    lexer_.take("+");
    value.value = constant().value;
  }
  declaration.initial.push_back(value);
}

// After the space: one type, then names with commas between them, then ';'.
void Parser::declarations(Declaration::Space space, const Declaration& marks, std::vector<Declaration>& out) {
  Declaration shared = marks;
  shared.space = space;
  shape(shared);
  do {
    Declaration one = shared;
    if (!is_name(lexer_.peek())) lexer_.reject("expected a name");
    one.name = lexer_.next();
    if (lexer_.take("<")) {
      if (space != Declaration::Space::reg) lexer_.reject("only registers have families");
      one.family = small_number(1u << 24);
      lexer_.expect(">");
      if (one.family == 0) lexer_.reject("a family needs a register");
    }
    while (lexer_.take("[")) {
      if (lexer_.take("]")) {
        if (one.elements != 1) lexer_.reject("only the first dimension may be open");
        one.elements = 0;
        continue;
      }
      const uint64_t count = small_number(UINT32_MAX);
      if (count && one.elements > kLargest / 16 / count) lexer_.reject("an array is too large");
      one.elements *= count;
      lexer_.expect("]");
    }
    if (lexer_.take("=")) {
      initial(one, 0);
      if (one.elements == 0) one.elements = (one.initial.size() + one.vector - 1) / one.vector;
      if (one.initial.size() > one.elements * one.vector) lexer_.reject("too many values");
    }
    out.push_back(std::move(one));
  } while (lexer_.take(","));
  lexer_.expect(";");
}

// One parameter of a function's list.
Declaration Parser::parameter() {
  Declaration result;
  result.space = Declaration::Space::param;
  if (!lexer_.take(".param") && lexer_.take(".reg")) result.space = Declaration::Space::reg;
  shape(result);
  result.name = lexer_.next();
  if (!is_name(result.name)) lexer_.reject("expected a name");
  if (lexer_.take("[")) {
    result.elements = lexer_.peek() == "]" ? 0 : small_number(1u << 20);
    lexer_.expect("]");
  }
  return result;
}

}  // namespace sim::ptx
