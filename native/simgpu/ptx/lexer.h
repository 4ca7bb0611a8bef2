// Words of a PTX text.
#pragma once

#include <cstdint>
#include <string_view>

namespace sim::ptx {

// A word is a run of letters, digits and any of _ $ % . ("ld.global.u32", "%tid.x", "0f3F800000"), a quoted text, or
// one other character. Comments count as space.
class Lexer {
 public:
  explicit Lexer(std::string_view text);

  std::string_view peek() const { return word_; }  // empty at the end
  uint32_t line() const { return line_; }          // of the word that peek() shows
  std::string_view next();                         // returns the word and goes on
  bool take(std::string_view word);                // goes on if the next word is this one
  void expect(std::string_view word);              // throws Rejected
  bool at_label() const;                           // a name with ':' behind it
  [[noreturn]] void reject(std::string_view what) const;

 private:
  void skip_space();
  void advance();

  std::string_view text_, word_;
  size_t position_ = 0;
  uint32_t counted_ = 1, line_ = 1;
};

bool is_name(std::string_view word);
// An integer constant as PTX writes it (decimal, 0x, 0b, octal, trailing U); false when it is none or too large.
bool integer_from(std::string_view word, uint64_t& value);

}  // namespace sim::ptx
