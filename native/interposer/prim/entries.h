// What the exported functions jump to (generated/entries.S): our bodies or the real functions, or stubs in front of them.
#pragma once

#include "../generated/symbols.h"

namespace torpor::entries {

// The exported function of a symbol: what a program is given that looks it up.
void* exported(Symbol symbol);

// Where a call of the symbol goes once it has been counted. After the first call of any exported function.
void* target(Symbol symbol);

// Works out the target of a symbol again: its real address has changed.
void aim(Symbol symbol);

// From now on every exported function jumps to its stub; with null, straight to its target. Threads that are on their way
// may still take the other one.
void route(void* const* stubs);

}  // namespace torpor::entries
