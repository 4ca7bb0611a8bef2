// Finding and opening the real driver library.
#pragma once

namespace torpor {

// Opens the real libcuda.so.1: the file that TORPOR_REAL_LIBCUDA names, else the first one that the loader would find and
// that is not the interposer (LD_LIBRARY_PATH, the loader's cache, the usual folders). Returns a handle, or null after a
// message on standard error. Not cached; callers keep the handle.
void* open_real_library();

// The path that open_real_library() opened, for messages; "" before.
const char* real_library_path();

}  // namespace torpor
