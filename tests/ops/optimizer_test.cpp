#include "heddle/kernels/optimizer.h"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "heddle/core/rng.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

/// An array with a canary on both sides, and with its start off every vector's alignment.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t n, T fill = T(0.0F)) : values_(static_cast<size_t>(n + 2), fill) {
    values_.front() = values_.back() = T(kCanary);
  }
  T* data() { return values_.data() + 1; }
  T& operator[](int64_t i) { return values_[static_cast<size_t>(i + 1)]; }
  int64_t size() const { return static_cast<int64_t>(values_.size()) - 2; }
  bool intact() const {
    return float(values_.front()) == kCanary && float(values_.back()) == kCanary;
  }

 private:
  static constexpr float kCanary = 12288.0F;
  std::vector<T> values_;
};

/// One parameter with everything that an optimizer step sees.
template <class T, class State = Accumulator<T>>
struct Parameter {
  explicit Parameter(int64_t n)
      : p(n),
        g(n),
        m(n, std::numeric_limits<State>::quiet_NaN()),
        v(n, std::numeric_limits<State>::quiet_NaN()) {}

  void fill(uint64_t seed) {
    Rng rng(seed, RngPurpose::kUser);
    for (int64_t i = 0; i < p.size(); ++i) p[i] = T(rng.next_normal()), g[i] = T(rng.next_normal());
  }
  ParamSlot slot(int64_t step) {
    return {p.data(), g.data(), m.data(), v.data(), p.size(), dtype_of<T>, step};
  }
  bool intact() const { return p.intact() && g.intact() && m.intact() && v.intact(); }

  Guarded<T> p, g;
  Guarded<State> m, v;
};

/// Float64 references, written after PyTorch's documentation.
struct AdamState {
  double p, m = 0.0, v = 0.0;

  void step(const AdamArgs& a, double g, double t) {
    g *= a.grad_scale;
    if (a.decoupled) {
      p -= a.lr * a.weight_decay * p;
    } else {
      g += a.weight_decay * p;
    }
    m = a.beta1 * m + (1.0 - a.beta1) * g;
    v = a.beta2 * v + (1.0 - a.beta2) * g * g;
    const double m_hat = m / (1.0 - std::pow(a.beta1, t));
    const double v_hat = v / (1.0 - std::pow(a.beta2, t));
    p -= a.lr * m_hat / (std::sqrt(v_hat) + a.eps);
  }
};

struct SgdState {
  double p, buffer = 0.0;

  void step(const SgdArgs& a, double g, double t) {
    g = g * a.grad_scale + a.weight_decay * p;
    if (a.momentum != 0.0) {
      buffer = t == 1.0 ? g : a.momentum * buffer + (1.0 - a.dampening) * g;
      g = a.nesterov ? g + a.momentum * buffer : buffer;
    }
    p -= a.lr * g;
  }
};

constexpr int64_t kSizes[] = {0, 1, 31, 33, 1025, 40001};

template <class T>
double tolerance() {
  if constexpr (std::is_same_v<T, double>) return 1e-13;
  if constexpr (std::is_same_v<T, float>) return 4e-6;
  return std::is_same_v<T, BFloat16> ? 0.03 : 0.004;  // the parameter is rounded at each step
}

/// Runs three steps of `run(slots)` and of the reference over tensors of all sizes at once.
template <class T, class State, class Args, class Run>
void check_against_reference(Args args, const Run& run) {
  std::vector<Parameter<T>> parameters;
  std::vector<std::vector<State>> expected;
  for (const int64_t n : kSizes) {
    parameters.emplace_back(n).fill(static_cast<uint64_t>(n));
    expected.emplace_back();
    for (int64_t i = 0; i < n; ++i) expected.back().push_back({double(parameters.back().p[i])});
  }
  for (int64_t step = 1; step <= 3; ++step) {
    std::vector<ParamSlot> slots;
    for (size_t k = 0; k < parameters.size(); ++k) {
      for (int64_t i = 0; i < kSizes[k]; ++i)
        expected[k][static_cast<size_t>(i)].step(args, double(parameters[k].g[i]), double(step));
      slots.push_back(parameters[k].slot(step));
    }
    args.slots = slots;
    run(args);
  }
  for (size_t k = 0; k < parameters.size(); ++k) {
    CHECK(parameters[k].intact());
    double worst = 0.0;
    for (int64_t i = 0; i < kSizes[k]; ++i)
      worst = std::max(
          worst, std::abs(double(parameters[k].p[i]) - expected[k][static_cast<size_t>(i)].p) /
                     (1.0 + std::abs(expected[k][static_cast<size_t>(i)].p)));
    CHECK(worst < tolerance<T>());
  }
}

template <class Body>
void for_each_isa(const Body& body) {
  const cpu::Isa before = cpu::active_isa();
  for (const cpu::Isa isa : cpu::available_isas()) {
    cpu::set_active_isa(isa);
    INFO("isa " << cpu::name_of(isa));
    body();
  }
  cpu::set_active_isa(before);
}

Parameter<float> single(float p, float g) {
  Parameter<float> parameter(1);
  parameter.p[0] = p;
  parameter.g[0] = g;
  return parameter;
}

void adam_step(Parameter<float>& parameter, int64_t step, AdamArgs args) {
  const ParamSlot slot = parameter.slot(step);
  args.slots = {&slot, 1};
  cpu::adam_step(args);
}

}  // namespace

TEMPLATE_TEST_CASE("Adam and AdamW follow the float64 reference", "[optimizer]", float, double,
                   BFloat16, Float16) {
  for_each_isa([] {
    check_against_reference<TestType, AdamState>(AdamArgs{}, cpu::adam_step);
    AdamArgs args{.lr = 0.02, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.1};
    check_against_reference<TestType, AdamState>(args, cpu::adam_step);
    args.decoupled = true;
    args.grad_scale = 0.25;
    check_against_reference<TestType, AdamState>(args, cpu::adam_step);
  });
}

TEMPLATE_TEST_CASE("SGD follows the float64 reference", "[optimizer]", float, double, BFloat16,
                   Float16) {
  for_each_isa([] {
    SgdArgs args{.lr = 0.05};
    check_against_reference<TestType, SgdState>(args, cpu::sgd_step);
    args.weight_decay = 0.1;
    args.grad_scale = 0.5;
    check_against_reference<TestType, SgdState>(args, cpu::sgd_step);
    args.momentum = 0.9;
    check_against_reference<TestType, SgdState>(args, cpu::sgd_step);
    args.nesterov = true;
    check_against_reference<TestType, SgdState>(args, cpu::sgd_step);
    args.nesterov = false;
    args.dampening = 0.3;
    check_against_reference<TestType, SgdState>(args, cpu::sgd_step);
  });
}

TEST_CASE("Adam's epsilon stands outside the root and is not scaled", "[optimizer]") {
  Parameter<float> parameter = single(1.0F, 0.01F);
  const AdamArgs args{.lr = 0.1, .eps = 1e-3};
  adam_step(parameter, 1, args);
  CHECK(parameter.p[0] == Approx(0.9090909).epsilon(1e-6));
  adam_step(parameter, 2, args);
  CHECK(parameter.p[0] == Approx(0.8181818).epsilon(1e-6));
}

TEST_CASE("Weight decay is decoupled in AdamW and part of the gradient in Adam", "[optimizer]") {
  Parameter<float> coupled = single(1.0F, 0.0F);
  Parameter<float> decoupled = single(1.0F, 0.0F);
  adam_step(coupled, 1, {.lr = 0.1, .weight_decay = 0.1});
  adam_step(decoupled, 1, {.lr = 0.1, .weight_decay = 0.1, .decoupled = true});
  CHECK(coupled.p[0] == Approx(0.9).epsilon(1e-6));
  CHECK(decoupled.p[0] == Approx(0.99).epsilon(1e-6));
}

TEST_CASE("Adam goes on from restored moments and step", "[optimizer]") {
  const AdamArgs args{.lr = 0.1};
  Parameter<float> parameter = single(1.0F, 1.0F);
  for (int64_t step = 1; step <= 5; ++step) adam_step(parameter, step, args);
  CHECK(parameter.p[0] == Approx(0.5).epsilon(1e-6));
  CHECK(parameter.m[0] == Approx(0.40951).epsilon(1e-6));
  CHECK(parameter.v[0] == Approx(0.00499001).epsilon(1e-6));
  Parameter<float> resumed = single(parameter.p[0], -1.0F);
  resumed.m[0] = parameter.m[0];
  resumed.v[0] = parameter.v[0];
  adam_step(resumed, 6, args);
  CHECK(resumed.p[0] == Approx(0.442684).epsilon(2e-6));
}

TEST_CASE("Optimizer steps have the same bits for any number of threads and any instruction set",
          "[optimizer]") {
  const int threads_before = num_threads();
  std::vector<uint32_t> first;
  for_each_isa([&] {
    for (const int threads : {1, 2, 3}) {
      set_num_threads(threads);
      Parameter<float> a(40001), b(33);
      a.fill(1);
      b.fill(2);
      double squares = 0.0;
      for (int64_t step = 1; step <= 2; ++step) {
        const ParamSlot slots[] = {a.slot(step), b.slot(step)};
        cpu::gradient_squares({slots, &squares});
        cpu::adam_step({.slots = slots, .weight_decay = 0.01, .grad_scale = 1.0 / squares});
        cpu::sgd_step({.slots = slots, .momentum = 0.9});
      }
      std::vector<uint32_t> bits;
      for (int64_t i = 0; i < a.p.size(); ++i) bits.push_back(std::bit_cast<uint32_t>(a.p[i]));
      for (int64_t i = 0; i < b.p.size(); ++i) bits.push_back(std::bit_cast<uint32_t>(b.m[i]));
      if (first.empty()) first = bits;
      CHECK(bits == first);
    }
  });
  set_num_threads(threads_before);
}

TEST_CASE("Squares of gradients are summed in float64 over all tensors", "[optimizer]") {
  for_each_isa([] {
    Parameter<float> a(20001);
    Parameter<Float16> b(33);
    a.fill(3);
    b.fill(4);
    b.g[7] = Float16(60000.0F);  // its square is past float16
    long double expected = 0.0L;
    for (int64_t i = 0; i < a.g.size(); ++i) expected += double(a.g[i]) * double(a.g[i]);
    for (int64_t i = 0; i < b.g.size(); ++i) expected += double(float(b.g[i])) * float(b.g[i]);
    const ParamSlot slots[] = {a.slot(1), b.slot(1)};
    double squares = 0.0;
    cpu::gradient_squares({slots, &squares});
    CHECK(squares == Approx(double(expected)).epsilon(1e-13));
  });
  double squares = -1.0;
  cpu::gradient_squares({{}, &squares});
  CHECK(squares == 0.0);
}

TEST_CASE("A gradient that is not finite is found wherever it is", "[optimizer]") {
  constexpr float kBad[] = {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  for_each_isa([&] {
    Parameter<float> a(20001);
    Parameter<BFloat16> b(33);
    a.fill(5);
    b.fill(6);
    a.g[3] = std::numeric_limits<float>::max();
    const ParamSlot slots[] = {a.slot(1), b.slot(1)};
    bool finite = false;
    double squares = 0.0;
    cpu::gradients_finite({slots, &finite});
    cpu::gradient_squares({slots, &squares});
    CHECK(finite);
    CHECK(std::isfinite(squares));
    for (const float bad : kBad) {
      for (const int64_t place : {int64_t{0}, int64_t{16383}, int64_t{16384}, int64_t{20000}}) {
        const float kept = std::exchange(a.g[place], bad);
        cpu::gradients_finite({slots, &finite});
        CHECK_FALSE(finite);
        a.g[place] = kept;
      }
      const BFloat16 kept = std::exchange(b.g[32], BFloat16(bad));
      cpu::gradients_finite({slots, &finite});
      cpu::gradient_squares({slots, &squares});
      CHECK_FALSE(finite);
      CHECK_FALSE(std::isfinite(squares));
      b.g[32] = kept;
    }
  });
}

}  // namespace heddle
