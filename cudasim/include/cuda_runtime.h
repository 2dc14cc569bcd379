#pragma once

// Found instead of the CUDA toolkit's header of this name: the part of it that Heddle uses, run on
// the CPU. See cudasim/README.md.
#include "cudasim/device_api.h"
#include "cudasim/runtime_api.h"
#include "cudasim/types.h"
