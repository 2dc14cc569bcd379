// y = (x - max) - log(sum e^(x - max)) over rows, dx = dy - e^y * sum(dy); arrays (rows, cols),
// row-major. Computed and summed in float32. Deterministic: sums have a fixed tree. A warp holds a
// row of up to 1024 elements in registers, so that x (backward: dy and y) is read once; a block
// takes a longer one in several passes. NaN anywhere in a row makes the row NaN.
#include "heddle/kernels/log_softmax.h"

#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/rows.cuh"

namespace heddle::cuda {
namespace {

template <class Row, class T>
__global__ void log_softmax_forward_group_per_row_kernel(T* y, const T* x, int64_t rows,
                                                         int64_t cols) {
  const int64_t index = row_index<Row>();
  if (index >= rows) return;  // warps alone: a block that shares a row has one
  const Row row(x + index * cols, cols);
  const float max = row_max(row, cols);
  const float sum = row_sum(row, cols, [=](int64_t, float v) { return expf(v - max); });
  const float log_sum = logf(sum);
  write_row(
      y + index * cols, cols, [=](int64_t, float v) { return (v - max) - log_sum; }, row);
}

template <class Row, class T>
__global__ void log_softmax_backward_group_per_row_kernel(T* dx, const T* dy, const T* y,
                                                          int64_t rows, int64_t cols) {
  const int64_t index = row_index<Row>();
  if (index >= rows) return;
  const Row gradients(dy + index * cols, cols);
  const Row results(y + index * cols, cols);
  const float sum = row_sum(gradients, cols, [](int64_t, float v) { return v; });
  write_row(
      dx + index * cols, cols,
      [=](int64_t, float gradient, float result) { return gradient - expf(result) * sum; },
      gradients, results);
}

template <class T>
void forward(const LogSoftmaxArgs& args, StreamRef stream) {
  if (args.rows == 0) return;
  const auto run = [&]<class Row>() {
    launch("log_softmax_forward", log_softmax_forward_group_per_row_kernel<Row, T>,
           {.grid = grid_for(args.rows, Row::kRowsPerBlock), .block = kRowThreads}, stream,
           static_cast<T*>(args.y), static_cast<const T*>(args.x), args.rows, args.cols);
  };
  dispatch_row<T>(args.cols, run, args.y, args.x);
}

template <class T>
void backward(const LogSoftmaxBackwardArgs& args, StreamRef stream) {
  if (args.rows == 0) return;
  const auto run = [&]<class Row>() {
    launch("log_softmax_backward", log_softmax_backward_group_per_row_kernel<Row, T>,
           {.grid = grid_for(args.rows, Row::kRowsPerBlock), .block = kRowThreads}, stream,
           static_cast<T*>(args.dx), static_cast<const T*>(args.dy), static_cast<const T*>(args.y),
           args.rows, args.cols);
  };
  dispatch_row<T>(args.cols, run, args.dx, args.dy, args.y);
}

}  // namespace

void log_softmax_forward(const LogSoftmaxArgs& args, StreamRef stream) {
  dispatch_device_float("log_softmax_forward", args.dtype,
                        [&]<class T>() { forward<T>(args, stream); });
}

void log_softmax_backward(const LogSoftmaxBackwardArgs& args, StreamRef stream) {
  dispatch_device_float("log_softmax_backward", args.dtype,
                        [&]<class T>() { backward<T>(args, stream); });
}

}  // namespace heddle::cuda
