#include "written.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace torpor::cupti {
namespace {

std::string number(std::uint64_t value) { return std::to_string(value); }

// Bytes that are no ASCII are escaped one by one: names need not be UTF-8, and JSON must be.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (byte == '"' || byte == '\\') (out += '\\') += each;
    else if (byte < 0x20 || byte > 0x7e) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      out += escaped;
    } else {
      out += each;
    }
  }
  return out += '"';
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t part = ::write(file, text.data(), text.size());
    if (part <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(part));
  }
  return true;
}

}  // namespace

std::uint64_t monotonic_nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

std::string place_for_figures() {
  const char* const job = std::getenv("TORPOR_JOB_DIR");
  if (job == nullptr || *job == '\0') return {};
  return std::string(job) + "/profile/" + std::to_string(::getpid()) + "-" + number(monotonic_nanoseconds() / 1000) +
         ".kernels.json";
}

std::string json(Figures& figures, const Circumstances& circumstances) {
  std::string out = "{\"pid\":" + std::to_string(::getpid()) + ",\"clock_ns\":" + number(circumstances.asked);
  out += ",\"ended\":";
  out += circumstances.ended ? "true" : "false";
  out += ",\"library\":" + quoted(circumstances.library) + ",\"failures\":[";
  const char* comma = "";
  for (const std::string& each : circumstances.failures) {
    (out += comma) += quoted(each);
    comma = ",";
  }
  out += "],\"dropped\":" + number(circumstances.dropped) + ",\"untimed\":" + number(figures.untimed()) + ",\"devices\":[";
  comma = "";
  figures.each_device([&](std::uint32_t device, std::uint64_t busy) {
    ((out += comma) += "{\"ordinal\":" + number(device)) += ",\"busy_ns\":" + number(busy) + "}";
    comma = ",";
  });
  out += "],\"work\":[";
  comma = "";
  figures.each_work([&](const Work& work) {
    ((out += comma) += "{\"name\":" + quoted(work.name)) += std::string(",\"kind\":\"") + work.kind + "\",\"calls\":";
    out += number(work.calls) + ",\"ns\":" + number(work.nanoseconds) + ",\"longest_ns\":" + number(work.longest);
    out += ",\"bytes\":" + number(work.bytes) + "}";
    comma = ",";
  });
  return out += "]}\n";
}

bool write_figures(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  const int file = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool whole = write_all(file, text);
  if (::close(file) == 0 && whole && std::rename(partial.c_str(), path.c_str()) == 0) return true;
  ::unlink(partial.c_str());
  return false;
}

}  // namespace torpor::cupti
