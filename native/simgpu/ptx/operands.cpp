// Instructions and their operands.
#include <bit>
#include <cstdlib>
#include <string>

#include "ptx/parser.h"

namespace sim::ptx {
namespace {

bool starts_number(std::string_view word) { return !word.empty() && word[0] >= '0' && word[0] <= '9'; }

}  // namespace

Operand Parser::constant() {
  Operand result;
  const bool minus = lexer_.take("-");
  if (!minus) lexer_.take("+");
  const std::string_view word = lexer_.peek();
  if (!starts_number(word)) lexer_.reject("expected a number");
  const bool bits = word.size() > 2 && word[0] == '0' && (word[1] == 'f' || word[1] == 'F' || word[1] == 'd' || word[1] == 'D');
  if (bits) {
    const bool single = word[1] == 'f' || word[1] == 'F';
    result.kind = single ? Operand::Kind::single : Operand::Kind::real;
    if (word.size() != (single ? 10u : 18u) || !integer_from("0x" + std::string(word.substr(2)), result.value))
      lexer_.reject("not a floating-point constant");
    if (minus) result.value ^= single ? 1ull << 31 : 1ull << 63;
  } else if (integer_from(word, result.value)) {
    result.kind = Operand::Kind::integer;
    if (minus) result.value = -result.value;
  } else {
    const std::string copy(word);
    char* end = nullptr;
    const double value = std::strtod(copy.c_str(), &end);
    if (copy.find('x') != std::string::npos || end != copy.c_str() + copy.size()) lexer_.reject("not a number");
    result.kind = Operand::Kind::real;
    result.value = std::bit_cast<uint64_t>(minus ? -value : value);
  }
  lexer_.next();
  return result;
}

// `depth` bounds nested braces and parentheses.
Operand Parser::operand(unsigned depth) {
  if (depth > 3) lexer_.reject("operands are nested too deeply");
  Operand result;
  const std::string_view word = lexer_.peek();
  if (word == "{" || word == "(") {
    lexer_.next();
    const std::string_view end = word == "{" ? "}" : ")";
    result.kind = Operand::Kind::vector;
    if (lexer_.take(end)) return result;
    do result.items.push_back(operand(depth + 1));
    while (lexer_.take(","));
    lexer_.expect(end);
    return result;
  }
  if (lexer_.take("[")) {
    result.kind = Operand::Kind::address;
    if (is_name(lexer_.peek())) {
      result.name = lexer_.next();
      if (lexer_.peek() == "+" || lexer_.peek() == "-") {
        const bool plus = lexer_.take("+");
        Operand offset = constant();  // takes the minus itself, also after a plus: [%r1+-4]
        (void)plus;
        if (offset.kind != Operand::Kind::integer) lexer_.reject("an offset must be an integer");
        result.value = offset.value;
      }
    } else {
      Operand offset = constant();
      if (offset.kind != Operand::Kind::integer) lexer_.reject("an address must be an integer");
      result.value = offset.value;
    }
    lexer_.expect("]");
    return result;
  }
  if (lexer_.take("!")) result.negated = true;
  if (!result.negated && (starts_number(word) || word == "-" || word == "+")) return constant();
  if (!is_name(lexer_.peek())) lexer_.reject("expected an operand");
  result.kind = Operand::Kind::name;
  result.name = lexer_.next();
  if (result.name == "_") result.kind = Operand::Kind::blank;
  if (lexer_.take("|")) {
    if (!is_name(lexer_.peek())) lexer_.reject("expected a name");
    result.second = lexer_.next();
  } else if (lexer_.peek() == "+" || lexer_.peek() == "-") {  // mov.u64 %rd1, variable+8
    lexer_.take("+");
    result.value = constant().value;
  }
  return result;
}

Instruction Parser::instruction() {
  Instruction result;
  result.line = lexer_.line();
  if (lexer_.take("@")) {
    result.guard_negated = lexer_.take("!");
    if (!is_name(lexer_.peek())) lexer_.reject("expected a predicate");
    result.guard = lexer_.next();
    result.line = lexer_.line();
  }
  const std::string_view opcode = lexer_.peek();
  if (!is_name(opcode)) lexer_.reject("expected an instruction");
  result.opcode = lexer_.next();
  for (size_t start = 0; start <= opcode.size();) {
    const size_t end = std::min(opcode.find('.', start), opcode.size());
    result.parts.push_back(opcode.substr(start, end - start));
    start = end + 1;
  }
  if (lexer_.take(";")) return result;
  do result.operands.push_back(operand(0));
  while (lexer_.take(","));
  lexer_.expect(";");
  return result;
}

}  // namespace sim::ptx
