#pragma once

// All of Heddle's public interface.
#include "heddle/core/device.h"
#include "heddle/core/dtype.h"
#include "heddle/core/error.h"
#include "heddle/core/memory.h"
#include "heddle/core/rng.h"
#include "heddle/core/shape.h"
#include "heddle/core/tape.h"
#include "heddle/core/tensor.h"
#include "heddle/core/version.h"
#include "heddle/core/view.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/provider.h"
#include "heddle/nn/ops.h"
