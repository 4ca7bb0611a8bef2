#include "json.h"

#include <array>
#include <charconv>

namespace torpor::control {

void Json::put(std::string_view piece) {
  if (cut_ || out_.size() + piece.size() > limit_) {
    cut_ = true;
    return;
  }
  out_.append(piece);
}

void Json::separate() {
  if (comma_) put(",");
  comma_ = true;
}

Json& Json::open(char bracket) {
  separate();
  put({&bracket, 1});
  comma_ = false;
  return *this;
}

Json& Json::close(char bracket) {
  put({&bracket, 1});
  comma_ = true;
  return *this;
}

Json& Json::key(std::string_view name) {
  separate();
  quoted(name);
  put(":");
  comma_ = false;
  return *this;
}

Json& Json::number(std::int64_t value) {
  std::array<char, 24> digits;
  separate();
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  put({digits.data(), static_cast<std::size_t>(end - digits.data())});
  return *this;
}

Json& Json::number(std::uint64_t value) {
  std::array<char, 24> digits;
  separate();
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  put({digits.data(), static_cast<std::size_t>(end - digits.data())});
  return *this;
}

Json& Json::boolean(bool value) {
  separate();
  put(value ? "true" : "false");
  return *this;
}

Json& Json::text(std::string_view value) {
  separate();
  quoted(value);
  return *this;
}

void Json::quoted(std::string_view value) {
  static constexpr char kHex[] = "0123456789abcdef";
  put("\"");
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      const char escaped[] = {'\\', c};
      put({escaped, 2});
    } else if (byte < 0x20 || byte > 0x7e) {
      const char escaped[] = {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
      put({escaped, 6});
    } else {
      put({&c, 1});
    }
  }
  put("\"");
}

}  // namespace torpor::control
