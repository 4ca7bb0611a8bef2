#include <iterator>

#include "ptx/source.h"

namespace sim::ptx {
namespace {

struct Row {
  std::string_view name;
  Type type;
  uint8_t bytes;
  bool is_signed, is_float;
};

constexpr Row kRows[] = {
    {"", Type::none, 0, false, false},      {"pred", Type::pred, 0, false, false},
    {"b8", Type::b8, 1, false, false},      {"b16", Type::b16, 2, false, false},
    {"b32", Type::b32, 4, false, false},    {"b64", Type::b64, 8, false, false},
    {"b128", Type::b128, 16, false, false}, {"u8", Type::u8, 1, false, false},
    {"u16", Type::u16, 2, false, false},    {"u32", Type::u32, 4, false, false},
    {"u64", Type::u64, 8, false, false},    {"s8", Type::s8, 1, true, false},
    {"s16", Type::s16, 2, true, false},     {"s32", Type::s32, 4, true, false},
    {"s64", Type::s64, 8, true, false},     {"u16x2", Type::u16x2, 4, false, false}, {"s16x2", Type::s16x2, 4, true, false},
    {"f16", Type::f16, 2, false, true},
    {"f16x2", Type::f16x2, 4, false, true}, {"bf16", Type::bf16, 2, false, true},
    {"bf16x2", Type::bf16x2, 4, false, true}, {"tf32", Type::tf32, 4, false, true},
    {"f32", Type::f32, 4, false, true},     {"f64", Type::f64, 8, false, true},
};

const Row& row(Type type) {
  for (const Row& candidate : kRows)
    if (candidate.type == type) return candidate;
  return kRows[0];
}

}  // namespace

unsigned bytes_of(Type type) { return row(type).bytes; }
bool is_signed(Type type) { return row(type).is_signed; }
bool is_float(Type type) { return row(type).is_float; }

Type type_named(std::string_view name) {
  for (const Row& candidate : kRows)
    if (candidate.name == name) return candidate.type;
  return Type::none;
}

}  // namespace sim::ptx
