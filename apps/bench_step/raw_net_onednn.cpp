#include "heddle/apps/bench_step/raw_net_onednn.h"

#include <chrono>
#include <cmath>
#include <cstring>

#include "heddle/apps/bench_step/raw_layers_onednn.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle::bench {
namespace {

constexpr int64_t kAdamGrain = 1 << 16;  // parameters in a piece of work
constexpr int kTimedRuns = 5;

struct AdamFactors {
  float step_size, inverse_root;
};

template <class T>
void plain_adam(T* p, const T* g, float* m, float* v, int64_t n, AdamFactors factors) {
  parallel_ranges(n, kAdamGrain, [&](int64_t begin, int64_t end) {
    cpu::vectorized(
        [](T* p_part, const T* g_part, float* m_part, float* v_part, int64_t size, AdamFactors f)
            HEDDLE_VECTOR_LOOP {
              for (int64_t i = 0; i < size; ++i) {
                const float gradient = static_cast<float>(g_part[i]);
                const float m_new = 0.9F * m_part[i] + 0.1F * gradient;
                const float v_new = 0.999F * v_part[i] + 0.001F * gradient * gradient;
                m_part[i] = m_new;
                v_part[i] = v_new;
                const float change =
                    f.step_size * m_new / (__builtin_sqrtf(v_new) * f.inverse_root + 1e-8F);
                p_part[i] = static_cast<T>(static_cast<float>(p_part[i]) - change);
              }
            },
        p + begin, g + begin, m + begin, v + begin, end - begin, factors);
  });
}

}  // namespace

void RawNet::run_step(const Step& step) {
  if (step.plain) {
    step.plain();
  } else {
    step.primitive.execute(onednn::stream(), step.arguments);
  }
}

void RawNet::add_step(Step step) { steps_.push_back(std::move(step)); }

void RawNet::add_steps(std::vector<Step> steps) {
  for (Step& step : steps) add_step(std::move(step));
}

double RawNet::seconds_of(std::vector<Step>& steps) {
  for (Step& step : steps)
    if (step.scratch.get_size() > 0)
      step.arguments[DNNL_ARG_SCRATCHPAD] = Memory(step.scratch, onednn::engine());
  double best = 1e300;
  for (int run = 0; run <= kTimedRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    for (const Step& step : steps) run_step(step);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (run > 0) best = std::min(best, elapsed.count());
  }
  return best;
}

void RawNet::add_fastest(const std::vector<std::function<std::vector<Step>()>>& candidates) {
  std::vector<Step> fastest;
  double best = 1e300;
  for (const auto& build : candidates) {
    std::vector<Step> steps = build();
    const double seconds = seconds_of(steps);
    if (seconds < best) fastest = std::move(steps);
    best = std::min(best, seconds);
  }
  add_steps(std::move(fastest));
}

void RawNet::finish() {
  size_t bytes = 64;
  for (const Step& step : steps_) bytes = std::max(bytes, step.scratch.get_size());
  const Desc desc({static_cast<Memory::dim>(bytes)}, Memory::data_type::u8, Memory::format_tag::a);
  scratch_ = Memory(desc, onednn::engine());
  for (Step& step : steps_)
    if (step.scratch.get_size() > 0)
      step.arguments[DNNL_ARG_SCRATCHPAD] =
          Memory(step.scratch, onednn::engine(), scratch_.get_data_handle());
}

void RawNet::run() {
  ++step_count_;
  for (const Step& step : steps_) run_step(step);
  onednn::stream().wait();
}

RawNet::Memory RawNet::zeros(const Desc& desc) {
  Memory memory(desc, onednn::engine());
  std::memset(memory.get_data_handle(), 0, desc.get_size());
  return memory;
}

RawNet::Memory RawNet::in_layout(const Memory& memory, const Desc& wanted) {
  if (memory.get_desc() == wanted) return memory;
  const Memory result = zeros(wanted);
  const dnnl::reorder::primitive_desc pd(onednn::engine(), memory.get_desc(), onednn::engine(),
                                         wanted, onednn::attributes());
  add_step(step_of(pd, {{DNNL_ARG_FROM, memory}, {DNNL_ARG_TO, result}}));
  return result;
}

RawNet::Memory RawNet::images(int64_t batch, int64_t channels, int64_t size) {
  return random_memory(onednn::describe({batch, channels, size, size}, dtype_, Tag::nhwc), dtype_);
}

RawNet::Parameter& RawNet::parameter(const Desc& plain, const Desc& stored, DType dtype,
                                     float scale) {
  Memory value = random_memory(plain, dtype, scale);
  if (plain != stored) {
    Memory ordered = zeros(stored);
    dnnl::reorder(value, ordered).execute(onednn::stream(), value, ordered);
    value = ordered;
  }
  const size_t n = stored.get_size() / static_cast<size_t>(size_of(dtype));
  parameters_.push_back(
      {value, zeros(stored), std::vector<float>(n), std::vector<float>(n), dtype});
  return parameters_.back();
}

void RawNet::store_gradient(Parameter& parameter, const Memory& gradient) {
  const Desc& wanted = parameter.gradient.get_desc();
  if (gradient.get_desc() == wanted) {
    parameter.gradient = gradient;
  } else {
    parameter.gradient = in_layout(gradient, wanted);
  }
}

RawNet::Memory RawNet::cross_entropy(const Memory& logits) {
  const auto dims = dims_of(logits.get_desc());
  const Memory plain = in_layout(logits, onednn::describe(dims, dtype_, Tag::ab));
  const Memory gradient = zeros(plain.get_desc());
  const auto work = [this, plain, gradient, rows = dims[0], classes = dims[1]]<class T>() {
    const T* x = static_cast<const T*>(plain.get_data_handle());
    T* dx = static_cast<T*>(gradient.get_data_handle());
    loss_ = 0.0;
    for (int64_t row = 0; row < rows; ++row, x += classes, dx += classes) {
      float highest = static_cast<float>(x[0]), sum = 0.0F;
      for (int64_t j = 1; j < classes; ++j) highest = std::max(highest, static_cast<float>(x[j]));
      for (int64_t j = 0; j < classes; ++j) sum += std::exp(static_cast<float>(x[j]) - highest);
      const int64_t label = row % classes;
      loss_ += (highest + std::log(sum) - static_cast<float>(x[label])) / static_cast<double>(rows);
      for (int64_t j = 0; j < classes; ++j)
        dx[j] = static_cast<T>(
            (std::exp(static_cast<float>(x[j]) - highest) / sum - (j == label ? 1.0F : 0.0F)) /
            static_cast<float>(rows));
    }
  };
  Step step;
  if (dtype_ == DType::kBFloat16) {
    step.plain = [work] { work.template operator()<BFloat16>(); };
  } else {
    step.plain = [work] { work.template operator()<float>(); };
  }
  add_step(std::move(step));
  return gradient;
}

void RawNet::adam_step(Parameter& parameter, int64_t step) const {
  const auto n = static_cast<int64_t>(parameter.m.size());
  const double correction1 = 1.0 - std::pow(0.9, static_cast<double>(step));
  const double correction2 = 1.0 - std::pow(0.999, static_cast<double>(step));
  const AdamFactors factors{static_cast<float>(1e-3 / correction1),
                            static_cast<float>(1.0 / std::sqrt(correction2))};
  void* const p = parameter.value.get_data_handle();
  const void* const g = parameter.gradient.get_data_handle();
  float* const m = parameter.m.data();
  float* const v = parameter.v.data();
  if (parameter.dtype == DType::kBFloat16) {
    plain_adam(static_cast<BFloat16*>(p), static_cast<const BFloat16*>(g), m, v, n, factors);
  } else {
    plain_adam(static_cast<float*>(p), static_cast<const float*>(g), m, v, n, factors);
  }
}

void RawNet::adam() {
  Step step;
  step.plain = [this] {
    for (Parameter& parameter : parameters_) adam_step(parameter, step_count_);
  };
  add_step(std::move(step));
}

}  // namespace heddle::bench
