// The file in which a process tells its figures (docs/design/profile.md): JSON, replaced as a whole each time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "figures.h"

namespace torpor::cupti {

// What there is to say besides figures.
struct Circumstances {
  std::string library;               // CUPTI's path
  std::vector<std::string> failures;  // what did not work, each once
  std::uint64_t dropped = 0;         // records that found no room
  std::uint64_t asked = 0;           // when CUPTI was last asked for all that it had, and answered
  bool ended = false;                // the process has come to its end, and nothing will follow
};

// In the folder of the job's words, by this process's pid and the time of the call. Empty where there is no job.
std::string place_for_figures();

// These throw std::bad_alloc only.
std::string json(Figures& figures, const Circumstances& circumstances);
// False when it could not be written, and the file is as it was.
bool write_figures(const std::string& path, const std::string& text);

std::uint64_t monotonic_nanoseconds();

}  // namespace torpor::cupti
