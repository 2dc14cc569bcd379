#pragma once

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"

/// Sums down the columns of dense matrices. Columns are shared out, rows added in order: the same
/// bits for any number of threads.
namespace heddle::cpu {

/// target (cols) = the sum of rows (n_rows, cols), added up in Sum; zeros where there are no rows.
template <class Sum, class T, class W>
void sum_rows(W* target, const T* rows, int64_t n_rows, int64_t cols) {
  constexpr int64_t kColumns = 1024;  // that one piece sums
  parallel_ranges(cols, kColumns, [&](int64_t begin, int64_t end) {
    Sum space[kColumns];
    vectorized(
        [](W* out, Sum* sums, const T* values, int64_t height, int64_t stride, int64_t n)
            HEDDLE_VECTOR_LOOP {
              for (int64_t i = 0; i < n; ++i) sums[i] = Sum(0);
              for (int64_t r = 0; r < height; ++r)
                for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<Sum>(values[r * stride + i]);
              for (int64_t i = 0; i < n; ++i) out[i] = static_cast<W>(sums[i]);
            },
        target + begin, space, rows + begin, n_rows, cols, end - begin);
  });
}

/// target (n) = the sum of parts (n_parts, n), of which there is at least one: partial sums.
template <class T, class W>
void add_parts(W* target, const T* parts, int64_t n, int64_t n_parts) {
  constexpr int64_t kGrain = 4096;
  parallel_ranges(n, kGrain, [&](int64_t begin, int64_t end) {
    T space[kGrain];
    vectorized(
        [](W* out, T* sums, const T* in, int64_t count, int64_t stride, int64_t n_in)
            HEDDLE_VECTOR_LOOP {
              for (int64_t i = 0; i < count; ++i) sums[i] = in[i];
              for (int64_t part = 1; part < n_in; ++part)
                for (int64_t i = 0; i < count; ++i) sums[i] += in[part * stride + i];
              for (int64_t i = 0; i < count; ++i) out[i] = static_cast<W>(sums[i]);
            },
        target + begin, space, parts + begin, end - begin, n, n_parts);
  });
}

}  // namespace heddle::cpu
