// A writer of small JSON objects into a bounded text; the caller nests begin/end in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace torpor::control {

class Json {
 public:
  // Text beyond `limit` bytes is refused: whole() then says no and the text must not be sent.
  explicit Json(std::size_t limit) : limit_(limit) {}

  Json& object() { return open('{'); }
  Json& end_object() { return close('}'); }
  Json& array() { return open('['); }
  Json& end_array() { return close(']'); }
  Json& key(std::string_view name);
  Json& number(std::int64_t value);
  Json& number(std::uint64_t value);
  Json& boolean(bool value);
  // Bytes that are not printable ASCII are written as \u00xx, so that the result is valid whatever comes in.
  Json& text(std::string_view value);

  Json& field(std::string_view name, std::uint64_t value) { return key(name).number(value); }
  Json& field(std::string_view name, std::string_view value) { return key(name).text(value); }

  bool whole() const { return !cut_; }
  const std::string& str() const { return out_; }

 private:
  Json& open(char bracket);
  Json& close(char bracket);
  void separate();
  void put(std::string_view piece);
  void quoted(std::string_view value);

  std::size_t limit_;
  std::string out_;
  bool comma_ = false;
  bool cut_ = false;
};

}  // namespace torpor::control
