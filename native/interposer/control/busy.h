// How long each device was at work for this process, by the driver's own word.
#pragma once

#include "json.h"

namespace torpor::control {

// The field `busy_ns`, by ordinal; empty where the driver keeps no such clock. Changes nothing, at any time.
void write_busy(Json& json);

}  // namespace torpor::control
