#pragma once

// What a kernel can name. Each header lists its part of CUDA's names; one that is missing here
// fails to compile.
#include "cudasim/atomics.h"
#include "cudasim/block.h"
#include "cudasim/helpers.h"
#include "cudasim/intrinsics.h"
#include "cudasim/qualifiers.h"
#include "cudasim/types.h"
#include "cudasim/warp.h"
