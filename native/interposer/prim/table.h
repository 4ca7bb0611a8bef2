// The table of the real driver's addresses: filled once, at the program's first driver call.
#pragma once

#include "../generated/symbols.h"

namespace torpor {

// Opens the real library and fills the table if that has not happened yet. Returns whether there is a real library.
bool load_table();

// The exported symbol of the real library at `address`; Symbol::kCount when it is none that we know. Several names may
// share an address: then one whose name starts with `base` is preferred, if given.
Symbol symbol_at(const void* address, const char* base);

// Makes further calls of `symbol` go to `address`.
void redirect(Symbol symbol, void* address);

// The handle of the real library for dlsym; null when there is none.
void* real_library();

}  // namespace torpor
