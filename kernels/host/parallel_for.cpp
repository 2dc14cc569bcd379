#include "heddle/kernels/host/parallel_for.h"

#include <omp.h>

#include <atomic>
#include <exception>
#include <utility>

#include "heddle/core/denormals.h"
#include "heddle/core/tape.h"
#include "heddle/kernels/host/thread_share.h"

namespace heddle {
namespace {

std::atomic<int> configured_threads{0};

thread_local int thread_share = 0;  // of a ThreadShare; 0: all

thread_local bool inside_piece = false;  // of a parallel_for that runs on this thread alone

void run_range(int64_t begin, int64_t end, detail::PieceFunction function, const void* body) {
  for (int64_t piece = begin; piece < end; ++piece) function(body, piece);
}

void run_alone(int64_t n_pieces, detail::PieceFunction function, const void* body) {
  struct Inside {
    bool before = std::exchange(inside_piece, true);
    ~Inside() { inside_piece = before; }
  } const inside;
  const FlushDenormals flush;
  run_range(0, n_pieces, function, body);
}

}  // namespace

void set_num_threads(int n) {
  HEDDLE_CHECK(n >= 1, "set_num_threads: n is {}, expected at least 1", n);
  configured_threads = n;
  omp_set_num_threads(n);  // oneDNN asks the same pool
}

int num_threads() {
  if (thread_share > 0) return thread_share;
  const int n = configured_threads;
  return n > 0 ? n : omp_get_num_procs();
}

ThreadShare::ThreadShare(int n) : previous_(thread_share) {
  HEDDLE_CHECK(n >= 1, "ThreadShare: n is {}, expected at least 1", n);
  thread_share = n;
  omp_set_num_threads(n);  // a setting of this thread alone: oneDNN asks it
}

ThreadShare::~ThreadShare() {
  thread_share = previous_;
  omp_set_num_threads(num_threads());
}

void detail::run_pieces(int64_t n_pieces, PieceFunction function, const void* body) {
  if (n_pieces <= 0) return;
  const int64_t wanted = n_pieces < num_threads() ? n_pieces : num_threads();
  if (wanted == 1 || inside_piece || omp_in_parallel() != 0) {
    run_alone(n_pieces, function, body);
    return;
  }
  const GradState grad_state;
  std::exception_ptr error;
  std::atomic_flag error_taken = ATOMIC_FLAG_INIT;
#pragma omp parallel num_threads(static_cast <int>(wanted))
  {
    const FlushDenormals flush;
    const auto scope = grad_state.apply();
    const int64_t n = omp_get_num_threads();
    const int64_t i = omp_get_thread_num();
    try {
      run_range(n_pieces * i / n, n_pieces * (i + 1) / n, function, body);
    } catch (...) {
      if (!error_taken.test_and_set()) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace heddle
