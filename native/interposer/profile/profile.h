// Counting the program's driver calls: on and off, and what was counted.
//
// Off, an exported function is the jump that it always is. On, it jumps to a stub that adds one to a number of its thread's
// own (tables.h). With times, calls that do something are timed as well, by the time-stamp counter.
#pragma once

#include <cstdint>

#include "../control/json.h"

namespace torpor::profile {

enum class Level : std::uint32_t { off, counts, times };

// For the first call of the process: what TORPOR_PROFILE (`counts` or `times`, then `:` and who asks, a number) says. Null when
// nothing is to be counted.
void* const* stubs_at_start();

Level level();

// Counts from now on for `owner`, until `lease_ms` from now; off ends it. False, and nothing changes, while another owner's
// lease runs. Control thread only, as everything below but the last two.
bool set_level(Level level, std::uint64_t owner, std::uint32_t lease_ms);

// The control thread has started: what TORPOR_PROFILE asked for goes on for a lease from now.
void listening();

// Milliseconds until the lease ends, at least 0; -1 when nothing is counted. What poll() takes.
int lease_left();

// Counts no more if the lease has ended.
void expire();

// The job is frozen: its lease does not run. Then it has woken, perhaps elsewhere, and clocks may have jumped.
void frozen();
void woken();

// Fields `level`, `lease_ms` (-1: none runs), `clock_ns`, `threads`, `calls`, `bytes` and `nanoseconds` into an object that is open. No driver call.
void write_counts(control::Json& json);

// Whether any call was counted.
bool anything_counted();

}  // namespace torpor::profile
