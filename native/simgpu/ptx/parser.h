// Reads declarations and instructions into a Source.
#pragma once

#include "ptx/lexer.h"
#include "ptx/source.h"

namespace sim::ptx {

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}
  Source module();

 private:
  // parser.cpp: the module and its functions
  void header(Source& source);
  void function(Source& source, bool entry, bool external);
  std::vector<Declaration> parameters();
  void performance(FunctionSource& function);
  void body(FunctionSource& function);
  void statement(FunctionSource& function, std::vector<uint32_t>& open);
  void section();
  void skip_line(uint32_t line);

  // declarations.cpp
  static bool declares(std::string_view word, Declaration::Space& space);
  void declarations(Declaration::Space space, const Declaration& marks, std::vector<Declaration>& out);
  Declaration parameter();
  void shape(Declaration& declaration);
  void initial(Declaration& declaration, unsigned depth);
  uint32_t small_number(uint64_t limit);
  std::array<uint32_t, 3> triple();

  // operands.cpp
  Instruction instruction();
  Operand operand(unsigned depth);
  Operand constant();

  Lexer lexer_;
};

}  // namespace sim::ptx
