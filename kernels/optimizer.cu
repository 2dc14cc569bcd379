// Fused optimizer steps over lists of tensors (formulas: optimizer.h; Kingma & Ba 2015, Loshchilov
// & Hutter 2019, PyTorch's conventions). Memory-bound: each byte is read and written once, Adam 28
// bytes a float32 parameter, 16 bytes a thread and access where arrays are aligned. One launch for
// 64 tensors. 16-bit parameters are computed in float32 and rounded once. What changes from step to
// step may come from device memory (StepControl). Deterministic: nothing is summed.
#include "heddle/kernels/optimizer.h"

#include <cmath>

#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/slots.cuh"

namespace heddle {
namespace {

constexpr int kUnroll = 2;  // vectors of each array under way: Adam holds 8 of 16 bytes

enum class SgdKind { kPlain, kMomentum, kNesterov };

/// One element with its state.
struct Element {
  float p, g, m, v;
};

/// Rules of an update: which state it has, and with the constants of a step, what becomes of an
/// element. At the first step the state reads as 0.
template <SgdKind kKind>
struct Sgd {
  static constexpr bool kHasM = kKind != SgdKind::kPlain;
  static constexpr bool kHasV = false;
  double lr, grad_scale;  // times the control's, and rounded then: the same bits with and without
  float momentum, new_weight, weight_decay;

  struct Step {
    Sgd rule;
    float lr, grad_scale;
    bool first;

    __device__ __forceinline__ void apply(Element& e) const {
      const float d = e.g * grad_scale + e.p * rule.weight_decay;
      float update = d;
      if constexpr (kHasM) {
        e.m = first ? d : e.m * rule.momentum + d * rule.new_weight;
        update = kKind == SgdKind::kNesterov ? d + e.m * rule.momentum : e.m;
      }
      e.p -= lr * update;
    }
  };

  __device__ __forceinline__ Step at(int64_t step, const StepControl& control) const {
    return {*this, static_cast<float>(lr * control.lr_scale),
            static_cast<float>(grad_scale * control.grad_scale), step == 1};
  }
};

struct Adam {
  static constexpr bool kHasM = true;
  static constexpr bool kHasV = true;
  double lr, grad_scale;
  float log_beta1, log_beta2, m_new, v_old, v_new, eps, weight_decay;
  bool decoupled;

  struct Step {
    float step_size, inv_root_bias, m_new, v_old, v_new, eps, keep, weight_decay, grad_scale;

    __device__ __forceinline__ void apply(Element& e) const {
      const float d = e.g * grad_scale + e.p * weight_decay;
      e.m += (d - e.m) * m_new;
      e.v = e.v * v_old + d * d * v_new;
      e.p = e.p * keep - step_size * e.m / (sqrtf(e.v) * inv_root_bias + eps);
    }
  };

  /// 1 - beta^step as -expm1(step ln beta): no digits are lost where beta is almost 1.
  __device__ __forceinline__ Step at(int64_t step, const StepControl& control) const {
    const float t = static_cast<float>(step);
    const float rate = static_cast<float>(lr * control.lr_scale);
    return {rate / -expm1f(t * log_beta1),
            1.0F / sqrtf(-expm1f(t * log_beta2)),
            m_new,
            v_old,
            v_new,
            eps,
            decoupled ? 1.0F - rate * weight_decay : 1.0F,
            decoupled ? 0.0F : weight_decay,
            static_cast<float>(grad_scale * control.grad_scale)};
  }
};

template <class T, int N>
struct Elements {
  Vector<T, N> p, g;
  Vector<float, N> m, v;
};

template <class Rule, int N, class T>
__device__ __forceinline__ Elements<T, N> read(const DeviceSlot& slot, int64_t i, bool first) {
  Elements<T, N> e;
  e.p = load<N>(static_cast<const T*>(slot.p) + i);
  e.g = load<N>(static_cast<const T*>(slot.g) + i);
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) e.m[k] = e.v[k] = 0.0F;
  if (Rule::kHasM && !first) e.m = load<N>(static_cast<const float*>(slot.m) + i);
  if (Rule::kHasV && !first) e.v = load<N>(static_cast<const float*>(slot.v) + i);
  return e;
}

template <class Rule, int N, class T>
__device__ __forceinline__ void update(const DeviceSlot& slot, int64_t i,
                                       const typename Rule::Step& step, Elements<T, N>& e) {
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) {
    Element one{to_float(e.p[k]), to_float(e.g[k]), e.m[k], e.v[k]};
    step.apply(one);
    e.p[k] = from_float<T>(one.p);
    e.m[k] = one.m;
    e.v[k] = one.v;
  }
  store(static_cast<T*>(slot.p) + i, e.p);
  if (Rule::kHasM) store(static_cast<float*>(slot.m) + i, e.m);
  if (Rule::kHasV) store(static_cast<float*>(slot.v) + i, e.v);
}

template <class Rule, class T>
__global__ void __launch_bounds__(kSlotThreads)
    optimizer_step_kernel(const SlotTable table, const Rule rule, const StepControl* given) {
  const StepControl control = given == nullptr ? StepControl() : *given;
  if (control.found_inf > 0.0F) return;
  const SlotPiece piece = slot_piece(table, blockIdx.x);
  const int64_t t = piece.slot.step + control.steps;
  const typename Rule::Step step = rule.at(t, control);
  constexpr int64_t kStride = kSlotThreads;
  for (int64_t vector = piece.vector_begin + threadIdx.x; vector < piece.vector_end;
       vector += kUnroll * kStride) {
    Elements<T, kSlotWidth> elements[kUnroll];
    HEDDLE_UNROLL
    for (int u = 0; u < kUnroll; ++u)
      if (vector + u * kStride < piece.vector_end)
        elements[u] =
            read<Rule, kSlotWidth, T>(piece.slot, (vector + u * kStride) * kSlotWidth, t == 1);
    HEDDLE_UNROLL
    for (int u = 0; u < kUnroll; ++u)
      if (vector + u * kStride < piece.vector_end)
        update<Rule>(piece.slot, (vector + u * kStride) * kSlotWidth, step, elements[u]);
  }
  for (int64_t i = piece.single_begin + threadIdx.x; i < piece.single_end; i += kStride) {
    auto element = read<Rule, 1, T>(piece.slot, i, t == 1);
    update<Rule>(piece.slot, i, step, element);
  }
}

template <class Rule>
void launch_step(const char* op, const char* kernel, std::span<const ParamSlot> slots,
                 const Rule& rule, const StepControl* control, StreamRef stream) {
  for_each_slot_dtype(op, slots, [&]<class T>() {
    for_each_table<T>(slots, [&](const SlotTable& table, unsigned blocks) {
      launch(kernel, optimizer_step_kernel<Rule, T>, {.grid = blocks, .block = kSlotThreads},
             stream, table, rule, control);
    });
  });
}

template <SgdKind kKind>
void launch_sgd(const SgdArgs& args, StreamRef stream) {
  const Sgd<kKind> rule{args.lr, args.grad_scale, static_cast<float>(args.momentum),
                        static_cast<float>(1.0 - args.dampening),
                        static_cast<float>(args.weight_decay)};
  launch_step("sgd_step", "sgd_step_kernel", args.slots, rule, args.control, stream);
}

__global__ void prepare_step_kernel(const PrepareStepArgs args) { decide_step(args); }

}  // namespace

void cuda::prepare_step(const PrepareStepArgs& args, StreamRef stream) {
  launch("prepare_step_kernel", prepare_step_kernel, {.grid = 1, .block = 1}, stream, args);
}

void cuda::sgd_step(const SgdArgs& args, StreamRef stream) {
  if (args.momentum == 0.0) return launch_sgd<SgdKind::kPlain>(args, stream);
  if (args.nesterov) return launch_sgd<SgdKind::kNesterov>(args, stream);
  launch_sgd<SgdKind::kMomentum>(args, stream);
}

void cuda::adam_step(const AdamArgs& args, StreamRef stream) {
  const Adam rule{.lr = args.lr,
                  .grad_scale = args.grad_scale,
                  .log_beta1 = static_cast<float>(std::log(args.beta1)),
                  .log_beta2 = static_cast<float>(std::log(args.beta2)),
                  .m_new = static_cast<float>(1.0 - args.beta1),
                  .v_old = static_cast<float>(args.beta2),
                  .v_new = static_cast<float>(1.0 - args.beta2),
                  .eps = static_cast<float>(args.eps),
                  .weight_decay = static_cast<float>(args.weight_decay),
                  .decoupled = args.decoupled};
  launch_step("adam_step", "adam_step_kernel", args.slots, rule, args.control, stream);
}

}  // namespace heddle
