// Words as vectors of four bytes or two halves: the packed video instructions, without selectors and masks.
#include <algorithm>
#include <limits>

#include "exec/apply.h"

namespace sim::exec {
namespace {

enum class Video { sum, difference, distance, average, least, most };

template <Video kind>
[[gnu::always_inline]] inline int32_t combine(int32_t a, int32_t b) {
  if constexpr (kind == Video::sum) return a + b;
  else if constexpr (kind == Video::difference) return a - b;
  else if constexpr (kind == Video::distance) return a < b ? b - a : a - b;
  else if constexpr (kind == Video::average) return (a + b + (a + b >= 0)) >> 1;  // halves go away from zero
  else if constexpr (kind == Video::least) return std::min(a, b);
  else return std::max(a, b);
}

// What an element becomes: E is the type of the result's elements, A and B those of the operands'.
template <Video kind, typename E, typename A, typename B, bool saturate>
[[gnu::always_inline]] inline int32_t element(uint32_t a, uint32_t b) {
  const int32_t exact = combine<kind>(static_cast<A>(a), static_cast<B>(b));
  if constexpr (saturate)
    return std::clamp<int32_t>(exact, std::numeric_limits<E>::min(), std::numeric_limits<E>::max());
  else return exact;
}

template <Video kind, typename E, typename A, typename B>
Run variant(bool saturate, bool accumulate) {
  constexpr unsigned step = sizeof(E) * 8;
  if (accumulate)
    return lanes([](uint32_t a, uint32_t b, uint32_t c) {
      for (unsigned at = 0; at < 32; at += step)
        c += static_cast<uint32_t>(element<kind, E, A, B, false>(a >> at, b >> at));
      return c;
    });
  const auto packed = []<bool sat>(std::bool_constant<sat>) {
    return lanes([](uint32_t a, uint32_t b, uint32_t) {
      uint32_t d = 0;
      for (unsigned at = 0; at < 32; at += step)
        d |= uint32_t{static_cast<std::make_unsigned_t<E>>(element<kind, E, A, B, sat>(a >> at, b >> at))} << at;
      return d;
    });
  };
  return saturate ? packed(std::true_type{}) : packed(std::false_type{});
}

template <Video kind, typename S, typename U>
void video(Builder& b) {
  const Type d = b.take_type(), x = b.take_type(), y = b.take_type();
  for (const Type type : {d, x, y})
    if (type != Type::u32 && type != Type::s32) b.reject("not for this type");
  const bool saturate = b.take("sat"), accumulate = !saturate && b.take("add");
  const auto of = [&]<typename E, typename A>(E, A) {
    return y == Type::s32 ? variant<kind, E, A, S>(saturate, accumulate) : variant<kind, E, A, U>(saturate, accumulate);
  };
  const bool p = d == Type::s32, q = x == Type::s32;
  apply(b, p ? q ? of(S{}, S{}) : of(S{}, U{}) : q ? of(U{}, S{}) : of(U{}, U{}), Type::b32,
        {Type::b32, Type::b32, Type::b32});
}

const Instructions known{
    {"vadd4", video<Video::sum, int8_t, uint8_t>}, {"vadd2", video<Video::sum, int16_t, uint16_t>},
    {"vsub4", video<Video::difference, int8_t, uint8_t>}, {"vsub2", video<Video::difference, int16_t, uint16_t>},
    {"vabsdiff4", video<Video::distance, int8_t, uint8_t>}, {"vabsdiff2", video<Video::distance, int16_t, uint16_t>},
    {"vavrg4", video<Video::average, int8_t, uint8_t>}, {"vavrg2", video<Video::average, int16_t, uint16_t>},
    {"vmin4", video<Video::least, int8_t, uint8_t>}, {"vmin2", video<Video::least, int16_t, uint16_t>},
    {"vmax4", video<Video::most, int8_t, uint8_t>}, {"vmax2", video<Video::most, int16_t, uint16_t>}};

}  // namespace
}  // namespace sim::exec
