// Fused optimizer steps over lists of tensors (formulas: optimizer.h; Kingma & Ba 2015, Loshchilov
// & Hutter 2019, PyTorch's conventions). Memory-bound: each byte is read and written once, Adam 28
// bytes a float32 parameter. 16-bit parameters are computed in float32 and rounded once.
// Deterministic: pieces follow from the sizes, and nothing is summed but the squares of gradients,
// in a fixed order.
#include "heddle/kernels/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "heddle/kernels/host/convert.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements a piece: 256 KiB of Adam's four arrays
constexpr int kLanes = 16;           // partial sums of a piece, so that the sum is vectorised

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// The pieces of all slots in one numbering, so that small tensors share a parallel loop with large
/// ones.
class Pieces {
 public:
  explicit Pieces(std::span<const ParamSlot> slots) : slots_(slots) {
    ends_.reserve(slots.size());
    int64_t end = 0;
    for (const ParamSlot& slot : slots) ends_.push_back(end += (slot.n + kGrain - 1) / kGrain);
  }

  int64_t count() const { return ends_.empty() ? 0 : ends_.back(); }

  /// Calls body(slot, begin, n) for a range of elements.
  template <class Body>
  void with(int64_t piece, const Body& body) const {
    const auto index = std::upper_bound(ends_.begin(), ends_.end(), piece) - ends_.begin();
    const int64_t first = index == 0 ? 0 : ends_[static_cast<size_t>(index - 1)];
    const ParamSlot& slot = slots_[static_cast<size_t>(index)];
    const int64_t begin = (piece - first) * kGrain;
    body(slot, begin, std::min(kGrain, slot.n - begin));
  }

 private:
  std::span<const ParamSlot> slots_;
  std::vector<int64_t> ends_;  // first piece behind each slot
};

enum class SgdKind { kPlain, kMomentum, kNesterov };

template <class C>
struct SgdConstants {
  C lr, momentum, new_weight, weight_decay, grad_scale;
};

template <class C>
struct AdamConstants {
  C step_size;      // lr / (1 - beta1^step)
  C inv_root_bias;  // 1 / sqrt(1 - beta2^step)
  C m_new, v_old, v_new, eps, keep, weight_decay, grad_scale;
};

template <class T, SgdKind kKind, bool kFirst>
void sgd_piece(const ParamSlot& slot, int64_t begin, int64_t n,
               const SgdConstants<Compute<T>>& constants) {
  using C = Compute<T>;
  constexpr bool kBuffer = kKind != SgdKind::kPlain;
  cpu::vectorized(
      [](T* __restrict p, const T* __restrict g, C* __restrict m, int64_t count, SgdConstants<C> k)
          HEDDLE_VECTOR_LOOP {
            for (int64_t i = 0; i < count; ++i) {
              const C d = C(g[i]) * k.grad_scale + C(p[i]) * k.weight_decay;
              C update = d;
              if constexpr (kBuffer) {
                const C buffer = kFirst ? d : m[i] * k.momentum + d * k.new_weight;
                m[i] = buffer;
                update = kKind == SgdKind::kNesterov ? d + buffer * k.momentum : buffer;
              }
              p[i] = T(C(p[i]) - k.lr * update);
            }
          },
      static_cast<T*>(slot.p) + begin, static_cast<const T*>(slot.g) + begin,
      kBuffer ? static_cast<C*>(slot.m) + begin : nullptr, n, constants);
}

template <class T, bool kFirst>
void adam_piece(const ParamSlot& slot, int64_t begin, int64_t n,
                const AdamConstants<Compute<T>>& constants) {
  using C = Compute<T>;
  cpu::vectorized(
      [](T* __restrict p, const T* __restrict g, C* __restrict m, C* __restrict v, int64_t count,
         AdamConstants<C> k) HEDDLE_VECTOR_LOOP {
        for (int64_t i = 0; i < count; ++i) {
          const C old = C(p[i]);
          const C d = C(g[i]) * k.grad_scale + old * k.weight_decay;
          const C m_old = kFirst ? C(0) : m[i];
          const C v_old = kFirst ? C(0) : v[i];
          const C m_now = m_old + (d - m_old) * k.m_new;
          const C v_now = v_old * k.v_old + d * d * k.v_new;
          m[i] = m_now;
          v[i] = v_now;
          const C denominator = std::sqrt(v_now) * k.inv_root_bias + k.eps;
          p[i] = T(old * k.keep - k.step_size * m_now / denominator);
        }
      },
      static_cast<T*>(slot.p) + begin, static_cast<const T*>(slot.g) + begin,
      static_cast<C*>(slot.m) + begin, static_cast<C*>(slot.v) + begin, n, constants);
}

/// The piece of p that was just written, and is in the cache still, as p_cast.
template <class T>
void write_cast(const ParamSlot& slot, int64_t begin, int64_t n) {
  if (slot.p_cast == nullptr) return;
  dispatch_float(slot.cast_dtype, [&]<class To>() {
    cpu::vectorized(
        [](To* __restrict to, const T* __restrict p, int64_t count) HEDDLE_VECTOR_LOOP {
          for (int64_t i = 0; i < count; ++i) to[i] = cpu::convert<To>(p[i]);
        },
        static_cast<To*>(slot.p_cast) + begin, static_cast<const T*>(slot.p) + begin, n);
  });
}

/// The arguments with what `control` adds to them.
template <class Args>
Args controlled(Args args, const StepControl& control) {
  args.lr *= control.lr_scale;
  args.grad_scale *= control.grad_scale;
  return args;
}

template <class C>
AdamConstants<C> adam_constants(const AdamArgs& args, int64_t step) {
  const double t = static_cast<double>(step);
  return {.step_size = C(args.lr / (1.0 - std::pow(args.beta1, t))),
          .inv_root_bias = C(1.0 / std::sqrt(1.0 - std::pow(args.beta2, t))),
          .m_new = C(1.0 - args.beta1),
          .v_old = C(args.beta2),
          .v_new = C(1.0 - args.beta2),
          .eps = C(args.eps),
          .keep = C(args.decoupled ? 1.0 - args.lr * args.weight_decay : 1.0),
          .weight_decay = C(args.decoupled ? 0.0 : args.weight_decay),
          .grad_scale = C(args.grad_scale)};
}

template <class T, SgdKind kKind>
void sgd_slot(const ParamSlot& slot, int64_t begin, int64_t n,
              const SgdConstants<Compute<T>>& constants, bool first) {
  if (first) {
    sgd_piece<T, kKind, true>(slot, begin, n, constants);
  } else {
    sgd_piece<T, kKind, false>(slot, begin, n, constants);
  }
}

template <class T>
double squares(const T* gradient, int64_t n) {
  double lanes[kLanes] = {};
  cpu::vectorized(
      [](const T* g, int64_t count, double* out) HEDDLE_VECTOR_LOOP {
        double sums[kLanes] = {};
        int64_t i = 0;
        for (; i + kLanes <= count; i += kLanes) {
          for (int lane = 0; lane < kLanes; ++lane) {
            const double value = static_cast<double>(Compute<T>(g[i + lane]));
            sums[lane] += value * value;
          }
        }
        for (int lane = 0; i < count; ++i, ++lane) {
          const double value = static_cast<double>(Compute<T>(g[i]));
          sums[lane] += value * value;
        }
        for (int lane = 0; lane < kLanes; ++lane) out[lane] = sums[lane];
      },
      gradient, n, static_cast<double*>(lanes));
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

template <class T>
bool finite(const T* gradient, int64_t n) {
  bool result = true;
  cpu::vectorized(
      [](const T* g, int64_t count, bool* out) HEDDLE_VECTOR_LOOP {
        int bad = 0;
        for (int64_t i = 0; i < count; ++i) {
          const Compute<T> value = Compute<T>(g[i]);
          bad |= static_cast<int>(!(value - value == Compute<T>(0)));
        }
        *out = bad == 0;
      },
      gradient, n, &result);
  return result;
}

}  // namespace

void cpu::sgd_step(const SgdArgs& given) {
  const StepControl control = given.control == nullptr ? StepControl() : *given.control;
  if (control.found_inf > 0.0F) return;
  const SgdArgs args = controlled(given, control);
  const Pieces pieces(args.slots);
  const SgdKind kind = args.momentum == 0.0 ? SgdKind::kPlain
                       : args.nesterov      ? SgdKind::kNesterov
                                            : SgdKind::kMomentum;
  parallel_for(pieces.count(), [&](int64_t piece) {
    pieces.with(piece, [&](const ParamSlot& slot, int64_t begin, int64_t n) {
      dispatch_float(slot.dtype, [&]<class T>() {
        using C = Compute<T>;
        const SgdConstants<C> k{C(args.lr), C(args.momentum), C(1.0 - args.dampening),
                                C(args.weight_decay), C(args.grad_scale)};
        const bool first = slot.step + control.steps == 1;
        switch (kind) {
          case SgdKind::kPlain:
            sgd_slot<T, SgdKind::kPlain>(slot, begin, n, k, first);
            break;
          case SgdKind::kMomentum:
            sgd_slot<T, SgdKind::kMomentum>(slot, begin, n, k, first);
            break;
          case SgdKind::kNesterov:
            sgd_slot<T, SgdKind::kNesterov>(slot, begin, n, k, first);
            break;
        }
        write_cast<T>(slot, begin, n);
      });
    });
  });
}

void cpu::adam_step(const AdamArgs& given) {
  const StepControl control = given.control == nullptr ? StepControl() : *given.control;
  if (control.found_inf > 0.0F) return;
  const AdamArgs args = controlled(given, control);
  const Pieces pieces(args.slots);
  parallel_for(pieces.count(), [&](int64_t piece) {
    pieces.with(piece, [&](const ParamSlot& slot, int64_t begin, int64_t n) {
      dispatch_float(slot.dtype, [&]<class T>() {
        const int64_t step = slot.step + control.steps;
        const auto constants = adam_constants<Compute<T>>(args, step);
        if (step == 1) {
          adam_piece<T, true>(slot, begin, n, constants);
        } else {
          adam_piece<T, false>(slot, begin, n, constants);
        }
        write_cast<T>(slot, begin, n);
      });
    });
  });
}

void cpu::gradient_squares(const GradientSquaresArgs& args) {
  const Pieces pieces(args.slots);
  std::vector<double> partial(static_cast<size_t>(pieces.count()));
  parallel_for(pieces.count(), [&](int64_t piece) {
    pieces.with(piece, [&](const ParamSlot& slot, int64_t begin, int64_t n) {
      dispatch_float(slot.dtype, [&]<class T>() {
        partial[static_cast<size_t>(piece)] = squares(static_cast<const T*>(slot.g) + begin, n);
      });
    });
  });
  double sum = 0.0;
  for (const double value : partial) sum += value;
  *args.sum = sum;
}

void cpu::gradients_finite(const GradientsFiniteArgs& args) {
  const Pieces pieces(args.slots);
  std::vector<char> partial(static_cast<size_t>(pieces.count()));
  parallel_for(pieces.count(), [&](int64_t piece) {
    pieces.with(piece, [&](const ParamSlot& slot, int64_t begin, int64_t n) {
      dispatch_float(slot.dtype, [&]<class T>() {
        partial[static_cast<size_t>(piece)] = finite(static_cast<const T*>(slot.g) + begin, n);
      });
    });
  });
  *args.finite = std::all_of(partial.begin(), partial.end(), [](char ok) { return ok != 0; });
}

void cpu::prepare_step(const PrepareStepArgs& args) { decide_step(args); }

}  // namespace heddle
