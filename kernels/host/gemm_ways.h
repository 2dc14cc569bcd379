#pragma once

#include "heddle/kernels/host/gemm.h"
#include "heddle/kernels/host/isa/dot_kernels.h"

/// The ways to multiply that gemm shares out over threads. Each is one thread's, and writes all of
/// its c.
namespace heddle::cpu {

/// The dot kernels of active_isa().
template <class T>
const DotKernels<T>& dot_kernels();

/// Few rows, a_depth 1 and b_col or b_depth 1: b is packed, a little ahead of its use, or used as
/// it lies.
template <class T>
void multiply_columns(const GemmArgs<T>& args);

/// Columns, in tiles, that are few: multiply_dots then needs no copy of a.
inline constexpr int64_t kFewDotTiles = 4;

/// a_depth 1 and b_depth 1: b is used as it lies, and a is copied, a little ahead of its use, where
/// there are more than kFewDotTiles.
template <class T>
void multiply_dots(const GemmArgs<T>& args);

}  // namespace heddle::cpu
