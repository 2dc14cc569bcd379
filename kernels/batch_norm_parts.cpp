// What the parts of a batch found out becomes the batch's, a few values a channel: serial loops.
// Deterministic: float64, in the order of the parts.
#include "heddle/kernels/batch_norm_parts.h"

namespace heddle {
namespace {

template <class C>
void merge(const BatchNormMergeArgs& args) {
  const C* parts = static_cast<const C*>(args.parts);
  for (int64_t c = 0; c < args.channels; ++c) {
    double seen = 0.0, mean = 0.0, m2 = 0.0;  // M2: the sum of squares about the mean
    for (int k = 0; k < args.n_parts; ++k) {
      const auto n = static_cast<double>(args.rows.of[k]);
      if (n == 0.0) continue;
      const C* part = parts + k * 2 * args.channels + c;
      const double share = n / (seen + n), delta = static_cast<double>(part[0]) - mean;
      mean += delta * share;
      m2 += static_cast<double>(part[args.channels]) * n + delta * delta * seen * share;
      seen += n;
    }
    static_cast<C*>(args.mean)[c] = static_cast<C>(mean);
    static_cast<C*>(args.var)[c] = static_cast<C>(seen == 0.0 ? 0.0 : m2 / seen);
  }
}

template <class C>
void add(const BatchNormAddArgs& args) {
  const C* parts = static_cast<const C*>(args.parts);
  for (int64_t i = 0; i < args.size; ++i) {
    double sum = 0.0;
    for (int k = 0; k < args.n_parts; ++k) sum += static_cast<double>(parts[k * args.size + i]);
    static_cast<C*>(args.sums)[i] = static_cast<C>(sum);
  }
}

}  // namespace

void cpu::batch_norm_merge(const BatchNormMergeArgs& args) {
  if (args.dtype == DType::kFloat64) return merge<double>(args);
  merge<float>(args);
}

void cpu::batch_norm_add(const BatchNormAddArgs& args) {
  if (args.dtype == DType::kFloat64) return add<double>(args);
  add<float>(args);
}

}  // namespace heddle
