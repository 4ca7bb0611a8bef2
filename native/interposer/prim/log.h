// Messages on standard error. Safe anywhere: no allocation, no lock, errno kept.
#pragma once

namespace torpor::log {

// Writes "torpor: " + the formatted line + newline in one write; cut off at about 1000 bytes.
void error(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace torpor::log
