#pragma once

#include "heddle/core/stream.h"

/// Stands beside the declarations of an op that has no .cu file: HEDDLE_NO_CUDA_KERNEL(op, OpArgs).
#define HEDDLE_NO_CUDA_KERNEL(op, Args)                                               \
  namespace cuda {                                                                    \
  inline void op(const Args&, StreamRef) { fail("{}: has no CUDA kernel yet", #op); } \
  }
