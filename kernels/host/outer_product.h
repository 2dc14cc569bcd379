#pragma once

#include <cstdint>

/// Products whose sums run over rows of memory: nothing is packed.
namespace heddle::cpu {

/// sums (rows, cols), rows `stride` apart = [sums +] sum over k of a[k] (rows) times b[k] (cols).
template <class T>
struct OuterProduct {
  T* sums;
  int64_t stride;
  const T** a;  // (depth) pointers
  const T** b;
  int64_t a_offset, b_offset;
  int64_t depth, rows, cols;
  bool accumulate;
};

/// One thread. `copies` (depth, nr) and `pointers` (depth) are space for a last panel of fewer than
/// nr columns.
template <class T>
void add_outer(const OuterProduct<T>& product, T* copies, const T** pointers);

}  // namespace heddle::cpu
