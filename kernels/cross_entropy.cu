// Softmax cross-entropy in one pass over the logits each way (formulas: cross_entropy.h; Szegedy et
// al. 2016 for the smoothing). Everything is taken from x - max, so that far-apart logits lose
// nothing; backward computes the softmax again from the row's two saved numbers. Computed in
// float32, summed over rows in float64. Deterministic: a block's rows are added in order, blocks by
// a fixed tree. The host never waits: the count of labels stays on the device, and a label that is
// no class makes its row's loss and gradient NaN and is reported as a device fault.
#include "heddle/kernels/cross_entropy.h"

#include "heddle/core/device_fault.h"
#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/rows.cuh"
#include "heddle/kernels/device/scratch.h"
#include "heddle/kernels/device/shared.cuh"

namespace heddle::cuda {
namespace {

constexpr int kFinishThreads = 256;
constexpr int64_t kNoRow = INT64_MAX;

/// What a block of rows, or all rows, come to.
struct Partial {
  double sum;
  int64_t count;      // labels that are not ignored
  int64_t first_bad;  // the first row whose label is no class, or kNoRow
};

__device__ __forceinline__ Partial add(const Partial& a, const Partial& b) {
  return {a.sum + b.sum, a.count + b.count, a.first_bad < b.first_bad ? a.first_bad : b.first_bad};
}

/// The loss of one row whose label is a class; its group's threads work together.
template <class Row, class T>
__device__ __forceinline__ float row_loss(const T* x, int64_t cols, int64_t label, float smoothing,
                                          float* stats) {
  const Row row(x, cols);
  const float max = row_max(row, cols);
  const float log_sum = logf(row_sum(row, cols, [=](int64_t, float v) { return expf(v - max); }));
  const float at_label =
      row_sum(row, cols, [=](int64_t col, float v) { return col == label ? v - max : 0.0F; });
  float loss = log_sum - at_label;
  if (smoothing != 0.0F) {
    const float shifted = row_sum(row, cols, [=](int64_t, float v) { return v - max; });
    loss = (1.0F - smoothing) * loss + smoothing * (log_sum - shifted / static_cast<float>(cols));
  }
  if (Row::thread() == 0) {
    stats[0] = max;
    stats[1] = log_sum;
  }
  return loss;
}

/// Counts a row and gives its loss: 0 where ignored, NaN where the label is no class.
template <class Row, class T>
__device__ __forceinline__ Partial row_part(const CrossEntropyProblem& problem, int64_t row,
                                            float* stats, float* loss) {
  const int64_t label = problem.labels[row];
  const bool ignored = label == problem.ignore_index;
  const bool bad = !ignored && (label < 0 || label >= problem.cols);
  if (ignored || bad) {
    *loss = ignored ? 0.0F : NAN;
    if (Row::thread() == 0) stats[0] = stats[1] = *loss;
  } else {
    *loss = row_loss<Row>(static_cast<const T*>(problem.logits) + row * problem.cols, problem.cols,
                          label, static_cast<float>(problem.label_smoothing), stats);
  }
  return {static_cast<double>(*loss), ignored ? 0 : 1, bad ? row : kNoRow};
}

template <class Row, class T>
__global__ void cross_entropy_forward_group_per_row_kernel(Partial* partials, T* losses,
                                                           float* stats,
                                                           CrossEntropyProblem problem) {
  HEDDLE_SHARED(Partial, parts, [Row::kRowsPerBlock]);
  const int64_t row = row_index<Row>();
  Partial part{0.0, 0, kNoRow};
  if (row < problem.rows) {  // no early exit: a block barrier follows
    float loss;
    part = row_part<Row, T>(problem, row, stats + 2 * row, &loss);
    if (losses != nullptr && Row::thread() == 0) losses[row] = from_float<T>(loss);
  }
  if (Row::thread() == 0) parts[Row::slot()] = part;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int slot = 1; slot < Row::kRowsPerBlock; ++slot) part = add(part, parts[slot]);
  partials[blockIdx.x] = part;
}

/// One block: adds the blocks' parts, and writes what the host and backward need.
template <class T>
__global__ void cross_entropy_forward_finish_kernel(T* loss, double* scale, DeviceFault* fault,
                                                    const Partial* partials, int64_t n_partials,
                                                    bool mean, CrossEntropyProblem problem) {
  HEDDLE_SHARED(Partial, tree, [kFinishThreads]);
  const int thread = static_cast<int>(threadIdx.x);
  Partial total{0.0, 0, kNoRow};
  for (int64_t i = thread; i < n_partials; i += kFinishThreads) total = add(total, partials[i]);
  tree[thread] = total;
  __syncthreads();
  for (int half = kFinishThreads / 2; half > 0; half /= 2) {
    if (thread < half) tree[thread] = add(tree[thread], tree[thread + half]);
    __syncthreads();
  }
  if (thread != 0) return;
  total = tree[0];
  const double factor = mean && total.count > 0 ? 1.0 / static_cast<double>(total.count) : 1.0;
  *scale = factor;
  if (loss != nullptr) *loss = from_float<T>(static_cast<float>(total.sum * factor));
  if (total.first_bad == kNoRow || fault->found != 0) return;  // the first fault is kept
  fault->values[0] = total.first_bad;
  fault->values[1] = problem.labels[total.first_bad];
  fault->values[2] = problem.cols;
  fault->values[3] = problem.ignore_index;
  __threadfence_system();
  fault->found = 1;
}

/// What a row's gradient is made of beside its logits.
struct RowConstants {
  int64_t label;
  float factor;  // NaN where the label is no class
  float max, log_sum;
};

template <class T>
__device__ __forceinline__ RowConstants load_constants(const CrossEntropyProblem& problem,
                                                       int64_t row, const float* stats, const T* dy,
                                                       const double* scale) {
  const int64_t label = problem.labels[row];
  const Vector<float, 2> saved = load<2>(stats + 2 * row);
  const bool good = label >= 0 && label < problem.cols;
  return {label, good ? static_cast<float>(*scale) * to_float(*dy) : NAN, saved[0], saved[1]};
}

/// A block's first threads read its rows' constants for all: read by each warp for itself they
/// would be a tenth of what is moved.
template <class Row, class T>
__global__ void cross_entropy_backward_group_per_row_kernel(T* dlogits, const float* stats,
                                                            const T* dy, int64_t dy_stride,
                                                            const double* scale,
                                                            CrossEntropyProblem problem) {
  HEDDLE_SHARED(RowConstants, constants, [Row::kRowsPerBlock]);
  const int64_t cols = problem.cols;
  const int64_t own = int64_t{blockIdx.x} * Row::kRowsPerBlock + threadIdx.x;
  if (threadIdx.x < Row::kRowsPerBlock && own < problem.rows)
    constants[threadIdx.x] = load_constants(problem, own, stats, dy + own * dy_stride, scale);
  __syncthreads();
  const int64_t row = row_index<Row>();
  if (row >= problem.rows) return;
  const RowConstants& c = constants[Row::slot()];
  const int64_t label = c.label;
  const float factor = c.factor, max = c.max, log_sum = c.log_sum;
  T* dx = dlogits + row * cols;
  const Row logits(static_cast<const T*>(problem.logits) + row * cols, cols);
  if (label == problem.ignore_index) {
    write_row(
        dx, cols, [](int64_t, float) { return 0.0F; }, logits);
    return;
  }
  const float smoothing = static_cast<float>(problem.label_smoothing);
  const float uniform = smoothing / static_cast<float>(cols);
  write_row(
      dx, cols,
      [=](int64_t col, float v) {
        const float softmax = expf((v - max) - log_sum);
        return factor * ((softmax - uniform) - (col == label ? 1.0F - smoothing : 0.0F));
      },
      logits);
}

std::string describe_fault(const DeviceFault& fault) {
  const auto [row, label, cols, ignore_index] = fault.values;
  return fmt::format("cross_entropy: label in row {} is {}, expected 0 to {} or ignore_index {}",
                     row, label, cols - 1, ignore_index);
}

template <class T>
void forward(const CrossEntropyForwardArgs& args, StreamRef stream) {
  const CrossEntropyProblem& p = args.problem;
  check_device_faults(stream.device());  // an earlier step's
  DeviceFault* fault = device_fault(stream.device(), &describe_fault);
  const auto run = [&]<class Row>() {
    const int64_t n_partials = (p.rows + Row::kRowsPerBlock - 1) / Row::kRowsPerBlock;
    const DeviceScratch scratch(n_partials * static_cast<int64_t>(sizeof(Partial)), stream);
    Partial* partials = static_cast<Partial*>(scratch.data());
    if (n_partials > 0) {
      launch("cross_entropy_forward", cross_entropy_forward_group_per_row_kernel<Row, T>,
             {.grid = grid_for(p.rows, Row::kRowsPerBlock), .block = kRowThreads}, stream, partials,
             static_cast<T*>(args.losses), static_cast<float*>(args.stats), p);
    }
    launch("cross_entropy_forward", cross_entropy_forward_finish_kernel<T>,
           {.grid = 1, .block = kFinishThreads}, stream, static_cast<T*>(args.loss), args.scale,
           fault, partials, n_partials, args.mean, p);
  };
  dispatch_row<T>(p.cols, run, p.logits);
}

template <class T>
void backward(const CrossEntropyBackwardArgs& args, StreamRef stream) {
  const CrossEntropyProblem& p = args.problem;
  if (p.rows == 0) return;
  const auto run = [&]<class Row>() {
    launch("cross_entropy_backward", cross_entropy_backward_group_per_row_kernel<Row, T>,
           {.grid = grid_for(p.rows, Row::kRowsPerBlock), .block = kRowThreads}, stream,
           static_cast<T*>(args.dlogits), static_cast<const float*>(args.stats),
           static_cast<const T*>(args.dy), args.dy_stride, args.scale, p);
  };
  dispatch_row<T>(p.cols, run, args.dlogits, p.logits);
}

}  // namespace

void cross_entropy_forward(const CrossEntropyForwardArgs& args, StreamRef stream) {
  dispatch_device_float("cross_entropy_forward", args.problem.dtype,
                        [&]<class T>() { forward<T>(args, stream); });
}

void cross_entropy_backward(const CrossEntropyBackwardArgs& args, StreamRef stream) {
  dispatch_device_float("cross_entropy_backward", args.problem.dtype,
                        [&]<class T>() { backward<T>(args, stream); });
}

}  // namespace heddle::cuda
