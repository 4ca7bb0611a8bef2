// The driver's ABI. Every prototype in it is exported from this library: what is hidden by default everywhere else
// is visible here.
#pragma once

#pragma GCC visibility push(default)
#include "abi/cuda_driver.h"
#pragma GCC visibility pop
