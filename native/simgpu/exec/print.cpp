#include "exec/print.h"

#include <bit>
#include <cstdio>
#include <cstring>

#include "exec/memory.h"

namespace sim::exec {
namespace {

constexpr size_t kLongest = 1u << 16;  // bytes of one text

}  // namespace

bool DeviceText::fetch(uint64_t address, void* out, unsigned size) {
  const std::byte* place = host_place(warp_, lane_, address, size);
  if (!place) return false;
  std::memcpy(out, place, size);
  return true;
}

std::string DeviceText::read(uint64_t address) {
  std::string text;
  char c = 0;
  while (text.size() < kLongest) {
    if (!fetch(address + text.size(), &c, 1))
      warp_.fail(op_, Fault::Kind::illegal_address, lane_, "printf reads an illegal address");
    if (!c) break;
    text += c;
  }
  return text;
}

// One conversion. Integers take 4 bytes or, with l, ll, j, z, t, 8; floating-point numbers and pointers 8.
std::string DeviceText::one(const std::string& specification, uint64_t buffer, uint64_t& offset) {
  const char kind = specification.back();
  const bool large = specification.find_first_of("lzjt") != std::string::npos;
  const unsigned size = std::strchr("diouxXc", kind) && !large ? 4 : 8;
  offset = (offset + size - 1) & ~uint64_t{size - 1};
  uint64_t bits = 0;
  if (!fetch(buffer + offset, &bits, size))
    warp_.fail(op_, Fault::Kind::illegal_address, lane_, "printf reads an illegal address");
  offset += size;
  ++arguments_;
  std::string plain;  // flags, width and precision, without what says how large the argument is
  for (const char c : specification.substr(0, specification.size() - 1))
    if (!std::strchr("hlLzjtq", c)) plain += c;
  char out[512];
  int length = 0;
  if (std::strchr("di", kind)) {
    int64_t value = large ? static_cast<int64_t>(bits) : static_cast<int32_t>(bits);
    length = std::snprintf(out, sizeof out, (plain + "lld").c_str(), static_cast<long long>(value));
  } else if (std::strchr("ouxX", kind)) {
    length = std::snprintf(out, sizeof out, (plain + "ll" + kind).c_str(), static_cast<unsigned long long>(bits));
  } else if (std::strchr("eEfFgGaA", kind)) {
    length = std::snprintf(out, sizeof out, (plain + kind).c_str(), std::bit_cast<double>(bits));
  } else if (kind == 'c') {
    length = std::snprintf(out, sizeof out, (plain + kind).c_str(), static_cast<int>(bits));
  } else if (kind == 'p') {
    length = std::snprintf(out, sizeof out, (plain + kind).c_str(), reinterpret_cast<void*>(bits));
  } else {
    const std::string text = read(bits);
    const int needed = std::snprintf(nullptr, 0, (plain + kind).c_str(), text.c_str());
    std::string result(needed > 0 ? needed + 1 : 1, '\0');
    std::snprintf(result.data(), result.size(), (plain + kind).c_str(), text.c_str());
    result.pop_back();
    return result;
  }
  return std::string(out, length < 0 ? 0 : std::min<size_t>(length, sizeof out - 1));
}

std::string DeviceText::format(uint64_t address, uint64_t buffer) {
  const std::string text = read(address);
  std::string result;
  uint64_t offset = 0;
  arguments_ = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    std::string specification = "%";
    bool unknown = false;
    size_t k = i + 1;
    for (; k < text.size() && std::strchr("-+ #0123456789.*hlLzjtq", text[k]); ++k) {
      if (text[k] != '*') {
        specification += text[k];
        continue;
      }
      unknown |= text[k - 1] == '.';  // hardware knows a width from the arguments, but no precision
      if (unknown) continue;
      int32_t number = 0;
      offset = (offset + 3) & ~uint64_t{3};
      if (!fetch(buffer + offset, &number, 4))
        warp_.fail(op_, Fault::Kind::illegal_address, lane_, "printf reads an illegal address");
      offset += 4;
      specification += std::to_string(number);
    }
    if (unknown) {
      result += text.substr(i, k - i + 1);
    } else if (k < text.size() && text[k] == '%' && specification == "%") {
      result += '%';
    } else if (k < text.size() && std::strchr("diouxXeEfFgGaAcsp", text[k]) && specification.size() < 40) {
      result += one(specification + text[k], buffer, offset);
    } else {
      result += text.substr(i, k - i + 1);
    }
    i = k;
  }
  return result;
}

}  // namespace sim::exec
