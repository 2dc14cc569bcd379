// Batch normalisation over (rows, channels) arrays (Ioffe & Szegedy 2015; formulas: batch_norm.h).
// The variance never comes from a difference of raw squares: blocks of kBlockRows rows are taken
// about their own mean while they lie in the first-level cache, and merged by Chan's formula (Chan,
// Golub & LeVeque 1983), so x is read from memory once for the statistics and once for y. Backward
// reads x and dy for the sums and again for dx; a fused ReLU's mask is computed again from x.
// 16-bit floats are computed in float32, pieces merged in float64. Deterministic: the pieces follow
// from the sizes and are merged in order.
#include "heddle/kernels/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/scratch.h"

namespace heddle {
namespace {

constexpr int64_t kBlockRows = 16;
constexpr int kLanes = 16;              // channels held in registers over a block
constexpr int64_t kChunk = 256;         // channels whose sums lie on the stack over a block
constexpr int64_t kGrain = 1 << 15;     // elements of a piece
constexpr int64_t kMaxStatPieces = 64;  // merged serially: few

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Rows of a piece of a reduction: whole blocks, at most kMaxStatPieces pieces.
int64_t stat_rows(const BatchNormProblem& p) {
  const int64_t by_grain = kGrain / std::max<int64_t>(1, p.channels);
  const int64_t by_count = (p.rows + kMaxStatPieces - 1) / kMaxStatPieces;
  const int64_t rows = std::max({int64_t{1}, by_grain, by_count});
  return (rows + kBlockRows - 1) / kBlockRows * kBlockRows;
}

int64_t apply_rows(const BatchNormProblem& p) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, p.channels));
}

/// Calls body.template operator()<lanes>(channel): whole blocks of kLanes, then one by one.
template <class Body>
HEDDLE_INLINE void for_channel_blocks(int64_t channels, const Body& body) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) body.template operator()<kLanes>(c);
  for (; c < channels; ++c) body.template operator()<1>(c);
}

/// Constants of each channel in scratch memory: y = (x - mean) * scale + bias.
template <class C>
class Channels {
 public:
  Channels(const BatchNormProblem& p, const void* mean, const void* inv_std)
      : memory_(2 * p.channels * static_cast<int64_t>(sizeof(C))),
        n_(p.channels),
        mean_(static_cast<const C*>(mean)) {
    const C* weight = static_cast<const C*>(p.weight);
    const C* bias = static_cast<const C*>(p.bias);
    for (int64_t c = 0; c < n_; ++c) {
      const C inv = static_cast<const C*>(inv_std)[c];
      memory_.as<C>()[c] = weight != nullptr ? weight[c] * inv : inv;
      memory_.as<C>()[n_ + c] = bias != nullptr ? bias[c] : C(0);
    }
  }
  const C* mean() const { return mean_; }
  const C* scale() const { return memory_.as<C>(); }
  const C* bias() const { return memory_.as<C>() + n_; }

 private:
  cpu::Scratch memory_;
  int64_t n_;
  const C* mean_;
};

/// Adds block x (rows, channels) to the mean and M2 (sum of squares about the mean) of `seen` rows.
template <int kCount, class T, class C>
HEDDLE_INLINE void merge_block(const T* x, int64_t rows, int64_t channels, int64_t seen, C* mean,
                               C* m2) {
  const C inv_rows = C(1) / static_cast<C>(rows);
  const C new_share = static_cast<C>(rows) / static_cast<C>(seen + rows);
  const C cross = static_cast<C>(seen) * new_share;
  C sum[kCount] = {};
  for (int64_t row = 0; row < rows; ++row)
    for (int k = 0; k < kCount; ++k) sum[k] += C(x[row * channels + k]);
  C block_mean[kCount], block_m2[kCount] = {};
  for (int k = 0; k < kCount; ++k) block_mean[k] = sum[k] * inv_rows;
  for (int64_t row = 0; row < rows; ++row) {
    for (int k = 0; k < kCount; ++k) {
      const C centred = C(x[row * channels + k]) - block_mean[k];
      block_m2[k] += centred * centred;
    }
  }
  for (int k = 0; k < kCount; ++k) {
    const C delta = block_mean[k] - mean[k];
    mean[k] += delta * new_share;
    m2[k] += block_m2[k] + delta * delta * cross;
  }
}

/// mean and M2 of `rows` rows.
template <class T, class C>
void piece_statistics(const T* x, int64_t rows, int64_t channels, C* mean, C* m2) {
  cpu::vectorized(
      [](const T* from, C* means, C* m2s, int64_t n_rows, int64_t n_channels) HEDDLE_VECTOR_LOOP {
        for (int64_t c = 0; c < n_channels; ++c) means[c] = m2s[c] = C(0);
        for (int64_t row = 0; row < n_rows; row += kBlockRows) {
          const int64_t count = n_rows - row < kBlockRows ? n_rows - row : kBlockRows;
          const T* block = from + row * n_channels;
          for_channel_blocks(
              n_channels, [&]<int kCount>(int64_t c) __attribute__((always_inline)) {
                merge_block<kCount>(block + c, count, n_channels, row, means + c, m2s + c);
              });
        }
      },
      x, mean, m2, rows, channels);
}

/// Merges the pieces' (mean, M2) in order, in float64.
template <class C>
void merge_pieces(const C* pieces, int64_t rows, int64_t rows_per_piece, int64_t channels, C* mean,
                  C* var) {
  for (int64_t c = 0; c < channels; ++c) {
    double total_mean = 0.0, total_m2 = 0.0;
    const C* piece = pieces + c;
    for (int64_t seen = 0; seen < rows; seen += rows_per_piece, piece += 2 * channels) {
      const auto n = static_cast<double>(std::min(rows_per_piece, rows - seen));
      const double share = n / (static_cast<double>(seen) + n);
      const double delta = static_cast<double>(piece[0]) - total_mean;
      total_mean += delta * share;
      total_m2 +=
          static_cast<double>(piece[channels]) + delta * delta * static_cast<double>(seen) * share;
    }
    mean[c] = static_cast<C>(total_mean);
    var[c] = static_cast<C>(rows == 0 ? 0.0 : total_m2 / static_cast<double>(rows));
  }
}

template <class T>
void statistics(const BatchNormStatisticsArgs& args) {
  using C = Compute<T>;
  const BatchNormProblem& p = args.problem;
  const int64_t grain = stat_rows(p);
  const int64_t n_pieces = (p.rows + grain - 1) / grain;
  const cpu::Scratch scratch(n_pieces * 2 * p.channels * static_cast<int64_t>(sizeof(C)));
  parallel_ranges(p.rows, grain, [&](int64_t begin, int64_t end) {
    C* piece = scratch.as<C>() + begin / grain * 2 * p.channels;
    piece_statistics(static_cast<const T*>(args.x) + begin * p.channels, end - begin, p.channels,
                     piece, piece + p.channels);
  });
  merge_pieces(scratch.as<C>(), p.rows, grain, p.channels, static_cast<C*>(args.mean),
               static_cast<C*>(args.var));
}

template <class C>
void invert_std(const void* var, double eps, int64_t channels, void* inv_std) {
  for (int64_t c = 0; c < channels; ++c)
    static_cast<C*>(inv_std)[c] =
        static_cast<C>(1.0 / std::sqrt(static_cast<double>(static_cast<const C*>(var)[c]) + eps));
}

/// The result before ReLU. Subtracting first keeps the digits where the mean is large.
template <class C>
HEDDLE_INLINE C normalised(C x, C mean, C scale, C bias) {
  return (x - mean) * scale + bias;
}

template <class T>
void apply(const BatchNormProblem& p, const Channels<Compute<T>>& constants, const void* from,
           void* to) {
  using C = Compute<T>;
  parallel_ranges(p.rows, apply_rows(p), [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](const T* x, T* __restrict y, const C* mean, const C* scale, const C* bias, bool relu,
           int64_t rows, int64_t channels) HEDDLE_VECTOR_LOOP {
          for (int64_t row = 0; row < rows; ++row, x += channels, y += channels) {
            for (int64_t c = 0; c < channels; ++c) {
              const C value = normalised(C(x[c]), mean[c], scale[c], bias[c]);
              y[c] = T(relu && value < C(0) ? C(0) : value);  // NaN stays NaN
            }
          }
        },
        static_cast<const T*>(from) + begin * p.channels, static_cast<T*>(to) + begin * p.channels,
        constants.mean(), constants.scale(), constants.bias(), p.relu, end - begin, p.channels);
  });
}

/// dy where y came through ReLU, else 0. `value` is the result before ReLU, with its very bits.
template <bool kRelu, class C>
HEDDLE_INLINE C masked(C dy, C value) {
  if constexpr (!kRelu) return dy;
  return value <= C(0) ? C(0) : dy;
}

/// Adds the sums over a block's rows of dy and dy * (x - mean), for n <= kChunk channels.
template <bool kRelu, class T, class C>
HEDDLE_INLINE void add_block_sums(const T* x, const T* dy, int64_t rows, int64_t channels,
                                  int64_t n, const C* mean, const C* scale, const C* bias,
                                  C* sum_dy, C* sum_dy_x) {
  C part_dy[kChunk], part_dy_x[kChunk];
  for (int64_t c = 0; c < n; ++c) part_dy[c] = part_dy_x[c] = C(0);
  for (int64_t row = 0; row < rows; ++row, x += channels, dy += channels) {
    for (int64_t c = 0; c < n; ++c) {
      const C value = C(x[c]);
      const C gradient = masked<kRelu>(C(dy[c]), normalised(value, mean[c], scale[c], bias[c]));
      part_dy[c] += gradient;
      part_dy_x[c] += gradient * (value - mean[c]);
    }
  }
  for (int64_t c = 0; c < n; ++c) sum_dy[c] += part_dy[c], sum_dy_x[c] += part_dy_x[c];
}

template <bool kRelu, class T, class C>
void piece_sums(const T* x, const T* dy, int64_t rows, int64_t channels,
                const Channels<C>& constants, C* sums) {
  cpu::vectorized(
      [](const T* px, const T* pdy, const C* mean, const C* scale, const C* bias, C* sum_dy,
         int64_t n_rows, int64_t n) HEDDLE_VECTOR_LOOP {
        for (int64_t c = 0; c < 2 * n; ++c) sum_dy[c] = C(0);
        for (int64_t row = 0; row < n_rows; row += kBlockRows) {
          const int64_t count = n_rows - row < kBlockRows ? n_rows - row : kBlockRows;
          for (int64_t c = 0; c < n; c += kChunk)
            add_block_sums<kRelu>(px + row * n + c, pdy + row * n + c, count, n,
                                  n - c < kChunk ? n - c : kChunk, mean + c, scale + c, bias + c,
                                  sum_dy + c, sum_dy + n + c);
        }
      },
      x, dy, constants.mean(), constants.scale(), constants.bias(), sums, rows, channels);
}

/// Writes db and dw from the sums of the pieces, added in order in float64.
template <class C>
void add_pieces(const C* pieces, int64_t n_pieces, int64_t channels, const C* inv_std, C* dw,
                C* db) {
  for (int64_t c = 0; c < channels; ++c) {
    double sum_dy = 0.0, sum_dy_x = 0.0;
    for (int64_t piece = 0; piece < n_pieces; ++piece) {
      sum_dy += static_cast<double>(pieces[piece * 2 * channels + c]);
      sum_dy_x += static_cast<double>(pieces[(piece * 2 + 1) * channels + c]);
    }
    db[c] = static_cast<C>(sum_dy);
    dw[c] = static_cast<C>(sum_dy_x * static_cast<double>(inv_std[c]));
  }
}

template <class T, bool kRelu>
void backward_sums(const BatchNormBackwardArgs& args, const Channels<Compute<T>>& constants) {
  using C = Compute<T>;
  const BatchNormProblem& p = args.problem;
  const int64_t grain = stat_rows(p);
  const int64_t n_pieces = (p.rows + grain - 1) / grain;
  const cpu::Scratch scratch(n_pieces * 2 * p.channels * static_cast<int64_t>(sizeof(C)));
  parallel_ranges(p.rows, grain, [&](int64_t begin, int64_t end) {
    piece_sums<kRelu>(static_cast<const T*>(args.x) + begin * p.channels,
                      static_cast<const T*>(args.dy) + begin * p.channels, end - begin, p.channels,
                      constants, scratch.as<C>() + begin / grain * 2 * p.channels);
  });
  add_pieces(scratch.as<C>(), n_pieces, p.channels, static_cast<const C*>(args.inv_std),
             static_cast<C*>(args.dw), static_cast<C*>(args.db));
}

/// What the statistics' own gradients take from dx: mean_dy + (x - mean) * slope.
template <class C>
void write_corrections(const BatchNormBackwardDataArgs& args, C* mean_dy, C* slope) {
  const C share = C(1) / static_cast<C>(args.batch_rows);
  for (int64_t c = 0; c < args.problem.channels; ++c) {
    mean_dy[c] = static_cast<const C*>(args.db)[c] * share;
    slope[c] = static_cast<const C*>(args.dw)[c] * static_cast<const C*>(args.inv_std)[c] * share;
  }
}

/// dx = scale * (dy - mean_dy - (x - mean) * slope); in evaluation scale * dy.
template <class T, bool kRelu, bool kTraining>
void backward_data(const BatchNormBackwardDataArgs& args, const Channels<Compute<T>>& constants) {
  using C = Compute<T>;
  const BatchNormProblem& p = args.problem;
  const cpu::Scratch scratch(2 * p.channels * static_cast<int64_t>(sizeof(C)));
  C* mean_dy = scratch.as<C>();
  if (kTraining) write_corrections(args, mean_dy, mean_dy + p.channels);
  // From the last row to the first: what the sums read last may still lie in a cache.
  parallel_ranges(p.rows, apply_rows(p), [&](int64_t from_last, int64_t to_last) {
    const int64_t begin = p.rows - to_last, end = p.rows - from_last;
    cpu::vectorized(
        [](const T* x, const T* dy, T* __restrict dx, const C* mean, const C* scale, const C* bias,
           const C* means, int64_t rows, int64_t channels) HEDDLE_VECTOR_LOOP {
          const C* slopes = means + channels;
          for (int64_t row = 0; row < rows; ++row, x += channels, dy += channels, dx += channels) {
            for (int64_t c = 0; c < channels; ++c) {
              const C value = C(x[c]);
              C gradient = masked<kRelu>(C(dy[c]), normalised(value, mean[c], scale[c], bias[c]));
              if (kTraining) gradient = (gradient - means[c]) - (value - mean[c]) * slopes[c];
              dx[c] = T(scale[c] * gradient);
            }
          }
        },
        static_cast<const T*>(args.x) + begin * p.channels,
        static_cast<const T*>(args.dy) + begin * p.channels,
        static_cast<T*>(args.dx) + begin * p.channels, constants.mean(), constants.scale(),
        constants.bias(), static_cast<const C*>(mean_dy), end - begin, p.channels);
  });
}

template <class T, bool kRelu>
void backward(const BatchNormBackwardArgs& args) {
  const Channels<Compute<T>> constants(args.problem, args.mean, args.inv_std);
  backward_sums<T, kRelu>(args, constants);
  if (args.dx == nullptr) return;
  const BatchNormBackwardDataArgs rest{args.problem, args.problem.rows, args.dx,
                                       args.dw,      args.db,           args.dy,
                                       args.x,       args.mean,         args.inv_std};
  if (args.training) {
    backward_data<T, kRelu, true>(rest, constants);
  } else {
    backward_data<T, kRelu, false>(rest, constants);
  }
}

template <class C>
void move_running(const BatchNormRunningArgs& args) {
  const double rows = static_cast<double>(args.problem.rows);
  const double unbiased = rows / (rows - 1.0);
  const auto move = [&](void* running, int64_t c, double now) {
    C& value = static_cast<C*>(running)[c];
    value =
        static_cast<C>((1.0 - args.momentum) * static_cast<double>(value) + args.momentum * now);
  };
  for (int64_t c = 0; c < args.problem.channels; ++c) {
    move(args.running_mean, c, static_cast<double>(static_cast<const C*>(args.mean)[c]));
    move(args.running_var, c, static_cast<double>(static_cast<const C*>(args.var)[c]) * unbiased);
  }
}

}  // namespace

std::string BatchNormProblem::key() const {
  return fmt::format("{} {}x{}{}{}{}", name_of(dtype), rows, channels,
                     weight != nullptr ? " weight" : "", bias != nullptr ? " bias" : "",
                     relu ? " relu" : "");
}
std::string BatchNormInferenceArgs::key() const {
  return fmt::format("batch_norm_inference {} eps{}", problem.key(), eps);
}
std::string BatchNormForwardArgs::key() const {
  return fmt::format("batch_norm_forward {} eps{}", problem.key(), eps);
}
std::string BatchNormBackwardArgs::key() const {
  return fmt::format("batch_norm_backward {}{}", problem.key(), training ? "" : " eval");
}

void cpu::batch_norm_inference(const BatchNormInferenceArgs& args) {
  const BatchNormProblem& p = args.problem;
  dispatch_float(p.dtype, [&]<class T>() {
    using C = Compute<T>;
    invert_std<C>(args.var, args.eps, p.channels, args.inv_std);
    apply<T>(p, Channels<C>(p, args.mean, args.inv_std), args.x, args.y);
  });
}

void cpu::batch_norm_forward(const BatchNormForwardArgs& args) {
  const BatchNormProblem& p = args.problem;
  dispatch_float(p.dtype, [&]<class T>() {
    using C = Compute<T>;
    statistics<T>({p, args.mean, args.var, args.x});
    invert_std<C>(args.var, args.eps, p.channels, args.inv_std);
    apply<T>(p, Channels<C>(p, args.mean, args.inv_std), args.x, args.y);
  });
}

void cpu::batch_norm_statistics(const BatchNormStatisticsArgs& args) {
  dispatch_float(args.problem.dtype, [&]<class T>() { statistics<T>(args); });
}

void cpu::batch_norm_backward(const BatchNormBackwardArgs& args) {
  dispatch_float(args.problem.dtype, [&]<class T>() {
    if (args.problem.relu) {
      backward<T, true>(args);
    } else {
      backward<T, false>(args);
    }
  });
}

void cpu::batch_norm_backward_data(const BatchNormBackwardDataArgs& args) {
  dispatch_float(args.problem.dtype, [&]<class T>() {
    const Channels<Compute<T>> constants(args.problem, args.mean, args.inv_std);
    if (args.problem.relu) {
      backward_data<T, true, true>(args, constants);
    } else {
      backward_data<T, false, true>(args, constants);
    }
  });
}

void cpu::batch_norm_move_running(const BatchNormRunningArgs& args) {
  if (args.problem.dtype == DType::kFloat64) return move_running<double>(args);
  move_running<float>(args);
}

}  // namespace heddle
