// Softmax cross-entropy in one pass over the logits each way (formulas: cross_entropy.h; Szegedy et
// al. 2016 for the smoothing). Everything is taken from x - max, so that far-apart logits lose
// nothing; backward computes the softmax again from the row's two saved numbers instead of reading
// a stored one. 16-bit floats are computed in float32. Deterministic: fixed lanes and pieces.
#include "heddle/kernels/cross_entropy.h"

#include <vector>

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/rows.h"

namespace heddle {
namespace {

constexpr int64_t kGrain = 1 << 13;  // elements a piece: exponentials cost more than the memory

int64_t rows_per_piece(int64_t cols) { return cols >= kGrain ? 1 : kGrain / cols; }

template <class T>
double forward_rows(const CrossEntropyForwardArgs& args, int64_t begin, int64_t end) {
  using C = cpu::Compute<T>;
  const CrossEntropyProblem& p = args.problem;
  const T* x = static_cast<const T*>(p.logits) + begin * p.cols;
  C* stats = static_cast<C*>(args.stats) + 2 * begin;
  cpu::vectorized(
      [](const T* row_x, C* out, const int64_t* labels, int64_t ignore, int64_t rows, int64_t cols)
          HEDDLE_VECTOR_LOOP {
            for (int64_t row = 0; row < rows; ++row, row_x += cols, out += 2) {
              const bool counts = labels[row] != ignore;
              out[0] = counts ? cpu::row_max(row_x, cols) : C(0);
              out[1] = counts ? cpu::row_log_sum_exp(row_x, cols, out[0]) : C(0);
            }
          },
      x, stats, p.labels + begin, p.ignore_index, end - begin, p.cols);
  const C smoothing = C(p.label_smoothing);
  double sum = 0.0;
  for (int64_t row = begin; row < end; ++row, x += p.cols, stats += 2) {
    C loss = C(0);
    if (p.labels[row] != p.ignore_index) {
      const C max = stats[0];
      loss = stats[1] - (C(x[p.labels[row]]) - max);
      if (p.label_smoothing != 0.0) {
        const C shifted = cpu::row_sum<C>(p.cols, [&](int64_t i) { return C(x[i]) - max; });
        loss = (C(1) - smoothing) * loss + smoothing * (stats[1] - shifted / C(p.cols));
      }
    }
    if (args.losses != nullptr) static_cast<T*>(args.losses)[row] = T(loss);
    sum += static_cast<double>(loss);
  }
  return sum;
}

template <class T>
void backward_rows(const CrossEntropyBackwardArgs& args, int64_t begin, int64_t end) {
  using C = cpu::Compute<T>;
  const CrossEntropyProblem& p = args.problem;
  const C smoothing = C(p.label_smoothing);
  const C uniform = smoothing / C(p.cols);
  const C* stats = static_cast<const C*>(args.stats);
  for (int64_t row = begin; row < end; ++row) {
    T* dx = static_cast<T*>(args.dlogits) + row * p.cols;
    const int64_t label = p.labels[row];
    if (label == p.ignore_index) {
      for (int64_t i = 0; i < p.cols; ++i) dx[i] = T(0.0F);
      continue;
    }
    const T* x = static_cast<const T*>(p.logits) + row * p.cols;
    const C factor = C(*args.scale) * C(static_cast<const T*>(args.dy)[row * args.dy_stride]);
    const C max = stats[2 * row], log_sum = stats[2 * row + 1];
    cpu::vectorized(
        [](const T* row_x, T* row_dx, int64_t cols, C m, C l, C u, C f) HEDDLE_VECTOR_LOOP {
          for (int64_t i = 0; i < cols; ++i)
            row_dx[i] = T(f * (cpu::exp_bounded((C(row_x[i]) - m) - l) - u));
        },
        x, dx, p.cols, max, log_sum, uniform, factor);
    const C softmax = cpu::exp_bounded((C(x[label]) - max) - log_sum);
    dx[label] = T(factor * ((softmax - uniform) - (C(1) - smoothing)));
  }
}

/// The labels that are not ignored. Errors: one that is no class.
int64_t count_labels(const CrossEntropyProblem& p) {
  int64_t count = 0;
  for (int64_t row = 0; row < p.rows; ++row) {
    const int64_t label = p.labels[row];
    if (label == p.ignore_index) continue;
    if (label < 0 || label >= p.cols)
      fail("cross_entropy: label in row {} is {}, expected 0 to {} or ignore_index {}", row, label,
           p.cols - 1, p.ignore_index);
    ++count;
  }
  return count;
}

}  // namespace

void cpu::cross_entropy_forward(const CrossEntropyForwardArgs& args) {
  const int64_t count = count_labels(args.problem);
  *args.scale = args.mean && count > 0 ? 1.0 / static_cast<double>(count) : 1.0;
  const int64_t grain = rows_per_piece(args.problem.cols);
  std::vector<double> partial(static_cast<size_t>((args.problem.rows + grain - 1) / grain));
  parallel_ranges(args.problem.rows, grain, [&](int64_t begin, int64_t end) {
    dispatch_float(args.problem.dtype, [&]<class T>() {
      partial[static_cast<size_t>(begin / grain)] = forward_rows<T>(args, begin, end);
    });
  });
  if (args.loss == nullptr) return;
  double sum = 0.0;
  for (const double value : partial) sum += value;
  dispatch_float(args.problem.dtype, [&]<class T>() {
    *static_cast<T*>(args.loss) = T(static_cast<Accumulator<T>>(sum * *args.scale));
  });
}

void cpu::cross_entropy_backward(const CrossEntropyBackwardArgs& args) {
  parallel_ranges(
      args.problem.rows, rows_per_piece(args.problem.cols), [&](int64_t begin, int64_t end) {
        dispatch_float(args.problem.dtype, [&]<class T>() { backward_rows<T>(args, begin, end); });
      });
}

}  // namespace heddle
