#include "ptx/join.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "ptx/lexer.h"
#include "ptx/source.h"

namespace sim::ptx {
namespace {

enum class Linkage { local, external, weak, strong };

// A declaration or definition outside all functions, with the text that it takes.
struct Piece {
  std::string_view name, text;
  Linkage linkage = Linkage::local;
  bool defines = false;
  bool shared = false;  // dynamic shared memory is declared `.extern` and defined nowhere
  uint32_t line = 0;
};

struct Text {
  unsigned version = 0, target = 0;
  std::string_view version_word, target_word;
  std::vector<Piece> pieces;
};

// What the device runtime provides.
const std::set<std::string_view> built_in{"vprintf", "__assertfail", "malloc", "free"};

unsigned number_in(std::string_view word) {
  unsigned number = 0;
  for (char c : word)
    if (c >= '0' && c <= '9' && number < 100000) number = number * 10 + static_cast<unsigned>(c - '0');
  return number;
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), lexer_(text) {}

  Text scan() {
    Text result;
    lexer_.expect(".version");
    result.version_word = lexer_.next();
    result.version = number_in(result.version_word);
    lexer_.expect(".target");
    do {
      const std::string_view word = lexer_.next();
      if (!word.starts_with("sm_")) continue;
      result.target_word = word;
      result.target = number_in(word);
    } while (lexer_.take(","));
    if (lexer_.take(".address_size")) lexer_.next();
    while (!lexer_.peek().empty()) piece(result);
    return result;
  }

 private:
  const char* here() const { return lexer_.peek().empty() ? text_.data() + text_.size() : lexer_.peek().data(); }

  // Past the end of a declaration, or of the block that is opened first.
  void finish(Piece& found, bool function) {
    unsigned depth = 0;
    for (;;) {
      const std::string_view word = lexer_.next();
      if (word == "{") ++depth;
      if (word == "{" && function) found.defines = true;
      if (word == "}" && depth != 0 && --depth == 0 && function) return;
      if (word == ";" && depth == 0) return;
      if (!function && found.name.empty() && is_name(word)) found.name = word;
    }
  }

  void function(Piece& found) {
    if (lexer_.take("("))
      while (lexer_.next() != ")") {}
    found.name = lexer_.next();
    finish(found, true);
  }

  void piece(Text& result) {
    Piece found;
    found.line = lexer_.line();
    const char* start = here();
    for (;; lexer_.next()) {
      const std::string_view word = lexer_.peek();
      if (word == ".visible") found.linkage = std::max(found.linkage, Linkage::strong);
      else if (word == ".weak" || word == ".common") found.linkage = Linkage::weak;
      else if (word == ".extern") found.linkage = Linkage::external;
      else break;
    }
    if (lexer_.peek() == ".file" || lexer_.peek() == ".loc") {
      while (!lexer_.peek().empty() && lexer_.line() == found.line) lexer_.next();
      return;
    }
    if (lexer_.take(".section")) {
      while (lexer_.next() != "}") {}
      return;
    }
    if (lexer_.take(".pragma")) {
      while (lexer_.next() != ";") {}
      return;
    }
    if (lexer_.take(";")) return;
    if (lexer_.take(".func") || lexer_.take(".entry")) {
      function(found);
    } else {
      found.shared = lexer_.peek() == ".shared";
      found.defines = found.linkage != Linkage::external;
      finish(found, false);
    }
    const auto from = static_cast<size_t>(start - text_.data());
    found.text = text_.substr(from, static_cast<size_t>(here() - start));
    result.pieces.push_back(found);
  }

  std::string_view text_;
  Lexer lexer_;
};

// `text` with every word that is one of `names` written with `suffix` behind it.
std::string renamed(std::string_view text, const std::set<std::string_view>& names, const std::string& suffix) {
  if (names.empty()) return std::string(text);
  std::string result;
  size_t copied = 0;
  for (Lexer lexer(text); !lexer.peek().empty(); lexer.next()) {
    const std::string_view word = lexer.peek();
    if (!names.contains(word)) continue;
    const size_t end = static_cast<size_t>(word.data() - text.data()) + word.size();
    result.append(text.substr(copied, end - copied)).append(suffix);
    copied = end;
  }
  return result.append(text.substr(copied));
}

[[noreturn]] void reject(std::string_view what, const Piece& piece) {
  throw Rejected{piece.line, std::string(what) + " '" + std::string(piece.name.substr(0, 200)) + "'"};
}

// The definition that counts, of every name that is known outside its text.
std::map<std::string_view, const Piece*> definitions(const std::vector<Text>& texts) {
  std::map<std::string_view, const Piece*> chosen;
  for (const Text& text : texts)
    for (const Piece& piece : text.pieces) {
      if (!piece.defines || piece.linkage == Linkage::local) continue;
      const Piece*& before = chosen[piece.name];
      if (before != nullptr && before->linkage == Linkage::strong && piece.linkage == Linkage::strong)
        reject("Multiple definition of", piece);
      if (before == nullptr || before->linkage < piece.linkage) before = &piece;
    }
  return chosen;
}

std::string joined(std::span<const std::string> inputs) {
  std::vector<Text> texts;
  for (const std::string& input : inputs) texts.push_back(Scanner(input).scan());
  const auto chosen = definitions(texts);
  std::map<std::string_view, std::set<size_t>> users;
  for (size_t i = 0; i < texts.size(); ++i)
    for (const Piece& piece : texts[i].pieces) users[piece.name].insert(i);
  const auto newest = std::max_element(texts.begin(), texts.end(), [](auto& a, auto& b) { return a.version < b.version; });
  const auto largest = std::max_element(texts.begin(), texts.end(), [](auto& a, auto& b) { return a.target < b.target; });
  std::string result = ".version " + std::string(newest->version_word) + "\n.target " +
                       std::string(largest->target_word) + "\n.address_size 64\n";
  for (size_t i = 0; i < texts.size(); ++i) {
    std::set<std::string_view> apart;
    for (const Piece& piece : texts[i].pieces)
      if (piece.linkage == Linkage::local && users[piece.name].size() > 1) apart.insert(piece.name);
    for (const Piece& piece : texts[i].pieces) {
      const auto definition = chosen.find(piece.name);
      if (definition != chosen.end() && piece.linkage != Linkage::local && piece.defines && definition->second != &piece)
        continue;
      if (piece.linkage == Linkage::external && !piece.defines && !piece.shared) {
        if (definition != chosen.end()) continue;
        if (!built_in.contains(piece.name)) reject("Undefined reference to", piece);
      }
      result += renamed(piece.text, apart, "$t" + std::to_string(i)) + "\n";
    }
  }
  return result;
}

}  // namespace

std::string join(std::span<const std::string> texts, Problem& problem) {
  try {
    return joined(texts);
  } catch (const Rejected& rejected) {
    problem.line = rejected.line;
    problem.text = rejected.text;
    return {};
  }
}

}  // namespace sim::ptx
