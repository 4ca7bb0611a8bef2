#include "config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "failure.h"

namespace sim {

namespace {

constexpr uint64_t default_memory = uint64_t{16} << 30;
constexpr const char* default_name = "Torpor software GPU";

[[noreturn]] void refuse(const char* variable, const std::string& value) {
  std::fprintf(stderr, "torpor simgpu: %s=%s cannot be understood (docs/simgpu.md)\n", variable, value.c_str());
  fail(CUDA_ERROR_INVALID_VALUE);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (start <= text.size()) {
    size_t end = std::min(text.find(separator, start), text.size());
    std::string part = text.substr(start, end - start);
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    parts.push_back(part);
    start = end + 1;
  }
  return parts;
}

// The values of a list variable; empty when it is unset. The last value serves the devices after it.
std::vector<std::string> list(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return {};
  return split(text, ',');
}

std::optional<std::string> value_for(const std::vector<std::string>& values, size_t ordinal) {
  if (values.empty()) return std::nullopt;
  return values[std::min(ordinal, values.size() - 1)];
}

std::optional<uint64_t> parse_unsigned(const std::string& text) {
  uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

uint64_t parse_bytes(const char* variable, const std::string& text) {
  uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  int shift = unit == "" ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : unit == "T" ? 40 : -1;
  if (error != std::errc() || shift < 0 || number == 0 || number > (UINT64_MAX >> 12 >> shift)) refuse(variable, text);
  return number << shift;
}

std::optional<Uuid> parse_uuid(const std::string& text) {
  std::string digits = text.rfind("GPU-", 0) == 0 ? text.substr(4) : text;
  digits.erase(std::remove(digits.begin(), digits.end(), '-'), digits.end());
  Uuid uuid{};
  if (digits.size() != 2 * uuid.size()) return std::nullopt;
  for (size_t i = 0; i < uuid.size(); ++i) {
    const char* byte = digits.data() + 2 * i;
    auto [end, error] = std::from_chars(byte, byte + 2, uuid[i], 16);
    if (error != std::errc() || end != byte + 2) return std::nullopt;
  }
  return uuid;
}

// "54525052-5349-4d00-8000-0000000000NN": version 4 in form, and the same on every machine and run.
Uuid default_uuid(size_t ordinal) {
  Uuid uuid{'T', 'R', 'P', 'R', 'S', 'I', 'M' & 0x0f, 0, 0x80};
  uuid[6] |= 0x40;
  uuid[15] = static_cast<uint8_t>(ordinal);
  return uuid;
}

std::vector<DeviceSpec> read_machine() {
  size_t count = 1;
  if (const char* text = std::getenv("TORPOR_SIM_DEVICES"); text != nullptr && *text != '\0') {
    auto number = parse_unsigned(text);
    if (!number || *number > max_devices) refuse("TORPOR_SIM_DEVICES", text);
    count = *number;
  }
  auto memory = list("TORPOR_SIM_MEMORY"), arch = list("TORPOR_SIM_ARCH"), name = list("TORPOR_SIM_NAME");
  auto uuid = list("TORPOR_SIM_UUID"), link = list("TORPOR_SIM_LINK");
  std::vector<DeviceSpec> machine;
  for (size_t i = 0; i < count; ++i) {
    DeviceSpec spec{default_uuid(i), default_memory, 0.0, 9, 0, static_cast<int32_t>(i + 1), {}};
    if (auto text = value_for(memory, i)) spec.memory = parse_bytes("TORPOR_SIM_MEMORY", *text);
    if (auto text = value_for(arch, i)) {
      int used = 0;
      bool read = std::sscanf(text->c_str(), "%2d.%1d%n", &spec.major, &spec.minor, &used) == 2;
      if (!read || static_cast<size_t>(used) != text->size()) refuse("TORPOR_SIM_ARCH", *text);
    }
    if (auto text = value_for(link, i)) {
      char* end = nullptr;
      spec.link = std::strtod(text->c_str(), &end);
      if (text->empty() || *end != '\0' || !std::isfinite(spec.link) || spec.link < 0) refuse("TORPOR_SIM_LINK", *text);
    }
    if (i < uuid.size()) {
      auto parsed = parse_uuid(uuid[i]);
      if (!parsed) refuse("TORPOR_SIM_UUID", uuid[i]);
      spec.uuid = *parsed;
    }
    std::snprintf(spec.name, sizeof spec.name, "%s", value_for(name, i).value_or(default_name).c_str());
    for (const DeviceSpec& other : machine)
      if (other.uuid == spec.uuid) refuse("TORPOR_SIM_UUID", format_uuid(spec.uuid));
    machine.push_back(spec);
  }
  return machine;
}

// One item of CUDA_VISIBLE_DEVICES: an index, or a UUID of which a unique beginning suffices.
std::optional<size_t> find_device(const std::vector<DeviceSpec>& machine, const std::string& item) {
  if (auto index = parse_unsigned(item)) {
    if (*index < machine.size()) return *index;
    return std::nullopt;
  }
  std::optional<size_t> found;
  for (size_t i = 0; i < machine.size(); ++i) {
    if (item.size() <= 4 || format_uuid(machine[i].uuid).compare(0, item.size(), item) != 0) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

// As the driver reads it: the first item that names nothing ends the list, a repeated device makes it empty.
std::vector<DeviceSpec> select_visible(const std::vector<DeviceSpec>& machine) {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) return machine;
  std::vector<size_t> chosen;
  for (const std::string& item : split(text, ',')) {
    auto index = find_device(machine, item);
    if (!index) break;
    if (std::find(chosen.begin(), chosen.end(), *index) != chosen.end()) return {};
    chosen.push_back(*index);
  }
  std::vector<DeviceSpec> visible;
  for (size_t index : chosen) visible.push_back(machine[index]);
  return visible;
}

}  // namespace

std::string format_uuid(const Uuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", uuid[i]);
    text += byte;
  }
  return text;
}

Config read_config() {
  Config config;
  config.machine = read_machine();
  config.visible = select_visible(config.machine);
  return config;
}

int driver_version() {
  const char* text = std::getenv("TORPOR_SIM_DRIVER_VERSION");
  if (text == nullptr || *text == '\0') return 13000;
  auto number = parse_unsigned(text);
  if (!number || *number < 1000 || *number > 99999) refuse("TORPOR_SIM_DRIVER_VERSION", text);
  return static_cast<int>(*number);
}

}  // namespace sim
