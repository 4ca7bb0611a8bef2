// The C library's dlopen, past our own interposed one.
#pragma once

namespace torpor {

// As dlopen(3), but a name that stands for the driver is not redirected to the interposer.
void* next_dlopen(const char* file, int mode);

}  // namespace torpor
