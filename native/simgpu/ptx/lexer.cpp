#include "ptx/lexer.h"

#include <string>

#include "ptx/source.h"

namespace sim::ptx {
namespace {

bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool in_word(char c) { return letter(c) || digit(c) || c == '_' || c == '$' || c == '%' || c == '.'; }
bool space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v'; }

}  // namespace

Lexer::Lexer(std::string_view text) : text_(text) { advance(); }

void Lexer::skip_space() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    const std::string_view rest = text_.substr(position_);
    if (c == '\n') ++counted_;
    if (space(c)) {
      ++position_;
    } else if (rest.starts_with("//")) {
      const size_t end = text_.find('\n', position_);
      position_ = end == std::string_view::npos ? text_.size() : end;
    } else if (rest.starts_with("/*")) {
      const size_t end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) throw Rejected{counted_, "a comment does not end"};
      for (; position_ < end + 2; ++position_) counted_ += text_[position_] == '\n';
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_space();
  line_ = counted_;
  const size_t start = position_;
  if (start == text_.size()) {
    word_ = {};
    return;
  }
  if (text_[start] == '"') {
    const size_t end = text_.find('"', start + 1);
    if (end == std::string_view::npos) reject("a quoted text does not end");
    for (; position_ <= end; ++position_) counted_ += text_[position_] == '\n';
  } else if (in_word(text_[start])) {
    const bool number = digit(text_[start]);
    const bool bits = text_.substr(start).starts_with("0") && start + 1 < text_.size() && letter(text_[start + 1]);
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '.' && position_ != start && text_[start] == '.') break;  // .reg.b32 are two words
      if (in_word(c)) {
        ++position_;
      } else if (c == ':' && text_.substr(position_).starts_with("::") && !number) {
        position_ += 2;
      } else if ((c == '+' || c == '-') && number && !bits && (text_[position_ - 1] == 'e' || text_[position_ - 1] == 'E')) {
        ++position_;
      } else {
        break;
      }
    }
  } else {
    ++position_;
  }
  word_ = text_.substr(start, position_ - start);
}

std::string_view Lexer::next() {
  const std::string_view word = word_;
  if (word.empty()) reject("the text ends too early");
  advance();
  return word;
}

bool Lexer::take(std::string_view word) {
  if (word_ != word) return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view word) {
  if (!take(word)) reject("expected '" + std::string(word) + "'");
}

bool Lexer::at_label() const {
  if (!is_name(word_)) return false;
  size_t at = position_;
  while (at < text_.size() && space(text_[at])) ++at;
  return at < text_.size() && text_[at] == ':';
}

void Lexer::reject(std::string_view what) const {
  std::string text(what);
  if (!word_.empty()) text += " at '" + std::string(word_.substr(0, 60)) + "'";
  throw Rejected{line_, text};
}

bool is_name(std::string_view word) {
  return !word.empty() && (letter(word[0]) || word[0] == '_' || word[0] == '$' || word[0] == '%');
}

bool integer_from(std::string_view word, uint64_t& value) {
  if (!word.empty() && (word.back() == 'U' || word.back() == 'u')) word.remove_suffix(1);
  unsigned base = 10;
  if (word.size() > 1 && word[0] == '0') {
    base = 8;
    word.remove_prefix(1);
    if (word[0] == 'x' || word[0] == 'X') base = 16;
    if (word[0] == 'b' || word[0] == 'B') base = 2;
    if (base != 8) word.remove_prefix(1);
  }
  if (word.empty()) return false;
  uint64_t sum = 0;
  for (const char c : word) {
    unsigned number = 99;
    if (digit(c)) number = c - '0';
    if (c >= 'a' && c <= 'f') number = c - 'a' + 10;
    if (c >= 'A' && c <= 'F') number = c - 'A' + 10;
    if (number >= base || sum > (UINT64_MAX - number) / base) return false;
    sum = sum * base + number;
  }
  value = sum;
  return true;
}

}  // namespace sim::ptx
