// y = (x - max) - log(sum e^(x - max)) over rows, dx = dy - e^y * sum(dy). 16-bit floats are
// computed and summed in float32. A row is read from memory once and then from the cache.
// Deterministic: sums have a fixed number of lanes.
#include "heddle/kernels/log_softmax.h"

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/rows.h"

namespace heddle {
namespace {

constexpr int64_t kGrain = 1 << 13;  // elements a piece: exponentials cost more than the memory

int64_t rows_per_piece(int64_t cols) { return cols >= kGrain ? 1 : kGrain / cols; }

template <class T>
void forward(const LogSoftmaxArgs& args) {
  parallel_ranges(args.rows, rows_per_piece(args.cols), [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](const T* x, T* y, int64_t rows, int64_t cols) HEDDLE_VECTOR_LOOP {
          using C = cpu::Compute<T>;
          for (int64_t row = 0; row < rows; ++row, x += cols, y += cols) {
            const C max = cpu::row_max(x, cols);
            const C log_sum = cpu::row_log_sum_exp(x, cols, max);
            for (int64_t i = 0; i < cols; ++i) y[i] = T((C(x[i]) - max) - log_sum);
          }
        },
        static_cast<const T*>(args.x) + begin * args.cols,
        static_cast<T*>(args.y) + begin * args.cols, end - begin, args.cols);
  });
}

template <class T>
void backward(const LogSoftmaxBackwardArgs& args) {
  parallel_ranges(args.rows, rows_per_piece(args.cols), [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](const T* dy, const T* y, T* dx, int64_t rows, int64_t cols) HEDDLE_VECTOR_LOOP {
          using C = cpu::Compute<T>;
          for (int64_t row = 0; row < rows; ++row, dy += cols, y += cols, dx += cols) {
            const C sum = cpu::row_sum<C>(
                cols, [=](int64_t i) __attribute__((always_inline)) { return C(dy[i]); });
            for (int64_t i = 0; i < cols; ++i)
              dx[i] = T(C(dy[i]) - cpu::exp_bounded(C(y[i])) * sum);
          }
        },
        static_cast<const T*>(args.dy) + begin * args.cols,
        static_cast<const T*>(args.y) + begin * args.cols,
        static_cast<T*>(args.dx) + begin * args.cols, end - begin, args.cols);
  });
}

}  // namespace

std::string LogSoftmaxArgs::key() const {
  return fmt::format("log_softmax_forward {} {}x{}", name_of(dtype), rows, cols);
}
std::string LogSoftmaxBackwardArgs::key() const {
  return fmt::format("log_softmax_backward {} {}x{}", name_of(dtype), rows, cols);
}

void cpu::log_softmax_forward(const LogSoftmaxArgs& args) {
  dispatch_float(args.dtype, [&]<class T>() { forward<T>(args); });
}

void cpu::log_softmax_backward(const LogSoftmaxBackwardArgs& args) {
  dispatch_float(args.dtype, [&]<class T>() { backward<T>(args); });
}

}  // namespace heddle
