#include "ptx/parser.h"

#include <string>

namespace sim::ptx {

Source read(std::string_view text) { return Parser(text).module(); }

void Parser::header(Source& source) {
  lexer_.expect(".version");
  const std::string version(lexer_.next());
  const size_t point = version.find('.');
  uint64_t major = 0, minor = 0;
  if (point == std::string::npos || !integer_from(version.substr(0, point), major) ||
      !integer_from(version.substr(point + 1), minor) || major > 99 || minor > 9)
    lexer_.reject("expected a version such as 8.0");
  source.version = static_cast<unsigned>(major * 10 + minor);
  lexer_.expect(".target");
  do {
    std::string_view name = lexer_.next();
    if (!name.starts_with("sm_")) continue;  // texmode_…, debug, map_f64_to_f32
    name.remove_prefix(3);
    if (!name.empty() && (name.back() == 'a' || name.back() == 'f')) {
      source.target_specific = true;
      name.remove_suffix(1);
    }
    uint64_t target = 0;
    if (!integer_from(name, target) || target > 999) lexer_.reject("expected an architecture such as sm_80");
    source.target = static_cast<unsigned>(target);
  } while (lexer_.take(","));
  if (lexer_.take(".address_size") && small_number(64) != 64) lexer_.reject("addresses must have 64 bits");
}

void Parser::skip_line(uint32_t line) {
  while (!lexer_.peek().empty() && lexer_.line() == line) lexer_.next();
}

void Parser::section() {
  while (lexer_.peek() != "{") lexer_.next();
  while (lexer_.next() != "}") {}
}

Source Parser::module() {
  Source source;
  header(source);
  while (!lexer_.peek().empty()) {
    const uint32_t line = lexer_.line();
    Declaration marks;
    Declaration::Space space{};
    for (;; lexer_.next()) {
      if (lexer_.peek() == ".visible") marks.visible = true;
      else if (lexer_.peek() == ".extern") marks.external = true;
      else if (lexer_.peek() == ".weak" || lexer_.peek() == ".common") marks.visible = true;
      else break;
    }
    if (lexer_.take(".entry")) function(source, true, marks.external);
    else if (lexer_.take(".func")) function(source, false, marks.external);
    else if (declares(lexer_.peek(), space)) {
      if (space == Declaration::Space::reg || space == Declaration::Space::local || space == Declaration::Space::param)
        lexer_.reject("not allowed outside a function");
      lexer_.next();
      declarations(space, marks, source.variables);
    } else if (lexer_.peek() == ".file" || lexer_.peek() == ".loc") skip_line(line);
    else if (lexer_.take(".section")) section();
    else if (lexer_.take(".pragma")) {
      while (lexer_.next() != ";") {}
    } else if (!lexer_.take(";")) lexer_.reject("expected a declaration");
  }
  return source;
}

std::vector<Declaration> Parser::parameters() {
  std::vector<Declaration> result;
  if (!lexer_.take("(")) return result;
  if (lexer_.take(")")) return result;
  do result.push_back(parameter());
  while (lexer_.take(","));
  lexer_.expect(")");
  return result;
}

// What stands between a function's parameters and its body.
void Parser::performance(FunctionSource& function) {
  while (lexer_.peek().starts_with(".")) {
    const std::string_view word = lexer_.next();
    if (word == ".maxntid") function.maximum = triple();
    else if (word == ".reqntid") function.required = triple();
    else if (word == ".reqnctapercluster") function.cluster = triple();
    else if (word == ".minnctapersm" || word == ".maxnctapersm" || word == ".maxnreg" || word == ".maxclusterrank")
      small_number(UINT32_MAX);
    else if (word == ".pragma") {
      while (lexer_.next() != ";") {}
    } else if (word == ".attribute") {
      lexer_.expect("(");
      while (lexer_.next() != ")") {}
    } else if (word != ".noreturn" && word != ".explicitcluster") {
      throw Rejected{lexer_.line(), "unknown directive '" + std::string(word.substr(0, 60)) + "'"};
    }
  }
}

void Parser::function(Source& source, bool entry, bool) {
  FunctionSource result;
  result.entry = entry;
  result.line = lexer_.line();
  if (!entry) result.results = parameters();
  if (!is_name(lexer_.peek())) lexer_.reject("expected a function's name");
  result.name = lexer_.next();
  result.parameters = parameters();
  performance(result);
  if (!lexer_.take(";")) body(result);
  source.functions.push_back(std::move(result));
}

void Parser::body(FunctionSource& function) {
  function.defined = true;
  lexer_.expect("{");
  std::vector<uint32_t> open;
  for (;;) {
    const uint32_t line = lexer_.line();
    if (lexer_.take("}")) {
      if (open.empty()) return;
      open.pop_back();
      function.items.push_back({Item::Kind::close, 0, {}, line});
    } else {
      statement(function, open);
    }
  }
}

void Parser::statement(FunctionSource& function, std::vector<uint32_t>& open) {
  const uint32_t line = lexer_.line();
  Declaration::Space space{};
  if (lexer_.take("{")) {
    open.push_back(line);
    if (open.size() > 64) lexer_.reject("blocks are nested too deeply");
    function.items.push_back({Item::Kind::open, 0, {}, line});
  } else if (lexer_.take(";")) {
  } else if (declares(lexer_.peek(), space)) {
    lexer_.next();
    const size_t before = function.declarations.size();
    declarations(space, {}, function.declarations);
    for (size_t i = before; i < function.declarations.size(); ++i)
      function.items.push_back({Item::Kind::declaration, static_cast<uint32_t>(i), {}, line});
  } else if (lexer_.peek() == ".loc" || lexer_.peek() == ".file") {
    skip_line(line);
  } else if (lexer_.take(".pragma")) {
    while (lexer_.next() != ";") {}
  } else if (lexer_.at_label()) {
    const std::string_view name = lexer_.next();
    lexer_.expect(":");
    if (lexer_.take(".branchtargets") || lexer_.take(".calltargets")) {
      Targets targets;
      do targets.names.push_back(lexer_.next());
      while (lexer_.take(","));
      lexer_.expect(";");
      function.items.push_back({Item::Kind::targets, static_cast<uint32_t>(function.targets.size()), name, line});
      function.targets.push_back(std::move(targets));
    } else if (lexer_.take(".callprototype")) {
      while (lexer_.next() != ";") {}
      function.items.push_back({Item::Kind::targets, static_cast<uint32_t>(function.targets.size()), name, line});
      function.targets.emplace_back();
    } else {
      function.items.push_back({Item::Kind::label, 0, name, line});
    }
  } else {
    Instruction read = instruction();
    function.items.push_back({Item::Kind::instruction, static_cast<uint32_t>(function.instructions.size()), {}, line});
    function.instructions.push_back(std::move(read));
  }
}

}  // namespace sim::ptx
