#pragma once

#include <cstdint>

#include "heddle/core/dtype.h"

namespace heddle {

/// Threads that kernels use on this thread's behalf. Default: the processors this process may run
/// on. Errors: n < 1.
void set_num_threads(int n);
int num_threads();

namespace detail {
using PieceFunction = void (*)(const void* body, int64_t piece);
void run_pieces(int64_t n_pieces, PieceFunction function, const void* body);
}  // namespace detail

/// Calls `body(piece)` for piece 0 .. n_pieces-1 on the process's one pool of threads, each thread
/// a run of neighbouring pieces. The number of pieces must follow from the shape and never from the
/// number of threads: then results have the same bits for any number of them. The first exception
/// is rethrown here. Subnormal numbers are flushed to zero inside, and the gradient mode of the
/// calling thread holds. A call from inside a piece runs serially.
template <class Body>
void parallel_for(int64_t n_pieces, const Body& body) {
  detail::run_pieces(
      n_pieces,
      [](const void* function, int64_t piece) { (*static_cast<const Body*>(function))(piece); },
      &body);
}

/// Cuts 0 .. n into pieces of `grain` (the last may be shorter) and calls body(begin, end) for
/// each.
template <class Body>
void parallel_ranges(int64_t n, int64_t grain, const Body& body) {
  parallel_for((n + grain - 1) / grain, [&](int64_t piece) {
    const int64_t begin = piece * grain;
    body(begin, n - begin < grain ? n : begin + grain);
  });
}

}  // namespace heddle
