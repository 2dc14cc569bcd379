// The oneDNN versions against a float64 oracle, and how they are chosen.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "heddle/kernels/conv2d.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/linear.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/conv2d_products.h"

namespace {

using heddle::BFloat16;
using heddle::Provider;
using heddle::testing::each_conv2d_product;

/// Puts the provider setting back.
struct ProviderScope {
  explicit ProviderScope(Provider provider) : previous(heddle::provider()) {
    heddle::set_provider(provider);
  }
  ~ProviderScope() { heddle::set_provider(previous); }
  Provider previous;
};

TEST_CASE("the vendor provider needs a build that has a vendor's library") {
#ifdef HEDDLE_WITH_ONEDNN
  REQUIRE(heddle::built_with_vendor());
#endif
  if (heddle::built_with_vendor()) {  // oneDNN, or cuBLAS and cuDNN
    const ProviderScope scope(Provider::kVendor);
    REQUIRE(heddle::provider() == Provider::kVendor);
    return;
  }
  REQUIRE_THROWS_AS(heddle::set_provider(Provider::kVendor), heddle::UsageError);
  REQUIRE_THROWS_WITH(heddle::set_provider(Provider::kVendor),
                      ContainsSubstring("built without oneDNN"));
}

#ifdef HEDDLE_WITH_ONEDNN

std::vector<double> random_values(int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> draw(-1.0, 1.0);
  std::vector<double> values(static_cast<size_t>(n));
  // Multiples of 1/64, which bfloat16 holds exactly.
  for (double& value : values) value = std::round(draw(generator) * 64.0) / 64.0;
  return values;
}

template <class T>
std::vector<T> rounded(const std::vector<double>& values) {
  std::vector<T> result;
  for (const double value : values) result.push_back(T(static_cast<float>(value)));
  return result;
}

/// Space for a result between two runs of canaries.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t n) : values_(static_cast<size_t>(n) + 2 * kGuard, T(-77.0F)) {}
  T* data() { return values_.data() + kGuard; }
  void require_intact() const {
    for (size_t i = 0; i < kGuard; ++i) {
      REQUIRE(static_cast<float>(values_[i]) == -77.0F);
      REQUIRE(static_cast<float>(values_[values_.size() - 1 - i]) == -77.0F);
    }
  }
  void require_near(const std::vector<double>& expected, int64_t n_accumulated) const {
    require_intact();
    REQUIRE(values_.size() == expected.size() + 2 * kGuard);
    const double epsilon = sizeof(T) == 2 ? 1.0 / 256.0 : 1.2e-7;
    const double sums = 1.2e-7 * static_cast<double>(n_accumulated);
    double worst = 0.0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double found = static_cast<float>(values_[kGuard + i]);
      const double allowed = epsilon * std::abs(expected[i]) + sums + 1e-6;
      if (!(std::abs(found - expected[i]) <= allowed))
        worst = std::max(worst, std::abs(found - expected[i]) / allowed);
      if (std::isnan(found)) worst = std::numeric_limits<double>::infinity();
    }
    REQUIRE(worst == 0.0);
  }

 private:
  static constexpr size_t kGuard = 16;
  std::vector<T> values_;
};

// Convolution -------------------------------------------------------------------------------------

heddle::Conv2dGeometry geometry(int64_t batch, int64_t channels, int64_t height, int64_t width,
                                int64_t out, int64_t kernel, int64_t stride, int64_t pad,
                                int64_t dilation, int64_t groups) {
  heddle::Conv2dGeometry g;
  g.batch = batch;
  g.in_h = height;
  g.in_w = width;
  g.in_channels = channels;
  g.out_channels = out;
  g.kernel_h = g.kernel_w = kernel;
  g.stride_h = g.stride_w = stride;
  g.pad_h = g.pad_w = pad;
  g.dilation_h = g.dilation_w = dilation;
  g.groups = groups;
  g.out_h = (height + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  g.out_w = (width + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  return g;
}

std::vector<heddle::Conv2dGeometry> conv_cases() {
  return {
      geometry(2, 3, 8, 8, 32, 3, 1, 1, 1, 1),    geometry(2, 32, 9, 7, 64, 3, 1, 1, 1, 1),
      geometry(1, 16, 11, 11, 24, 3, 2, 1, 1, 1), geometry(2, 32, 8, 8, 64, 1, 2, 0, 1, 1),
      geometry(1, 64, 4, 4, 64, 3, 1, 1, 1, 1),   geometry(1, 16, 12, 12, 16, 3, 1, 2, 2, 1),
      geometry(3, 32, 6, 6, 32, 3, 1, 1, 1, 2),   geometry(1, 8, 6, 6, 8, 5, 2, 0, 1, 1),
  };
}

int64_t x_size(const heddle::Conv2dGeometry& g) {
  return g.batch * g.in_h * g.in_w * g.in_channels;
}
int64_t y_size(const heddle::Conv2dGeometry& g) {
  return g.batch * g.out_h * g.out_w * g.out_channels;
}
int64_t w_size(const heddle::Conv2dGeometry& g) {
  return g.out_channels * g.kernel_h * g.kernel_w * g.in_channels / g.groups;
}

template <class T>
void check_conv_forward(heddle::Conv2dGeometry g) {
  g.dtype = heddle::dtype_of<T>;
  const auto x = random_values(x_size(g), 1), w = random_values(w_size(g), 2);
  const auto bias = random_values(g.out_channels, 3);
  const auto x_t = rounded<T>(x), w_t = rounded<T>(w), bias_t = rounded<T>(bias);
  for (const bool relu : {false, true})
    for (const bool with_bias : {false, true}) {
      std::vector<double> expected(static_cast<size_t>(y_size(g)));
      each_conv2d_product(
          g, [&](int64_t iy, int64_t ix, int64_t iw) { expected[iy] += x[ix] * w[iw]; });
      for (size_t i = 0; i < expected.size(); ++i) {
        if (with_bias) expected[i] += bias[i % bias.size()];
        if (relu) expected[i] = std::max(expected[i], 0.0);
      }
      Guarded<T> y(y_size(g));
      const heddle::Conv2dForwardArgs args{
          g, y.data(), x_t.data(), w_t.data(), with_bias ? bias_t.data() : nullptr, relu};
      if (!heddle::onednn::conv2d_forward_supports(args)) return;
      heddle::onednn::conv2d_forward(args);
      y.require_near(expected, g.kernel_h * g.kernel_w * g.in_channels);
    }
}

template <class T>
void check_conv_backward(heddle::Conv2dGeometry g) {
  g.dtype = heddle::dtype_of<T>;
  const auto x = random_values(x_size(g), 4), w = random_values(w_size(g), 5);
  const auto dy = random_values(y_size(g), 6);
  const auto x_t = rounded<T>(x), w_t = rounded<T>(w), dy_t = rounded<T>(dy);
  std::vector<double> dx(x.size()), dw(w.size()), db(static_cast<size_t>(g.out_channels));
  each_conv2d_product(g, [&](int64_t iy, int64_t ix, int64_t iw) {
    dx[ix] += dy[iy] * w[iw];
    dw[iw] += dy[iy] * x[ix];
  });
  for (size_t i = 0; i < dy.size(); ++i) db[i % db.size()] += dy[i];

  Guarded<T> dx_t(x_size(g)), dw_t(w_size(g)), db_t(g.out_channels);
  const heddle::Conv2dBackwardDataArgs data{g, dx_t.data(), dy_t.data(), w_t.data()};
  if (heddle::onednn::conv2d_backward_data_supports(data)) {
    heddle::onednn::conv2d_backward_data(data);
    dx_t.require_near(dx, g.kernel_h * g.kernel_w * g.out_channels);
  }
  const int64_t n_pixels = g.batch * g.out_h * g.out_w;
  const heddle::Conv2dBackwardWeightArgs weight{g, dw_t.data(), db_t.data(), x_t.data(),
                                                dy_t.data()};
  if (heddle::onednn::conv2d_backward_weight_supports(weight)) {
    heddle::onednn::conv2d_backward_weight(weight);
    dw_t.require_near(dw, n_pixels);
    db_t.require_near(db, n_pixels);
    Guarded<T> alone(w_size(g));
    heddle::onednn::conv2d_backward_weight({g, alone.data(), nullptr, x_t.data(), dy_t.data()});
    alone.require_near(dw, n_pixels);
  }
}

TEST_CASE("oneDNN convolution matches the float64 oracle") {
  for (const heddle::Conv2dGeometry& g : conv_cases()) {
    INFO("in " << g.in_channels << " out " << g.out_channels << " kernel " << g.kernel_h
               << " stride " << g.stride_h << " groups " << g.groups);
    check_conv_forward<float>(g);
    check_conv_backward<float>(g);
    check_conv_forward<BFloat16>(g);
    check_conv_backward<BFloat16>(g);
  }
}

TEST_CASE("oneDNN does SimpleCnn's convolutions in float32") {
  for (const heddle::Conv2dGeometry& g :
       {geometry(64, 3, 32, 32, 32, 3, 1, 1, 1, 1), geometry(64, 32, 32, 32, 64, 3, 1, 1, 1, 1)}) {
    REQUIRE(heddle::onednn::conv2d_forward_supports({g, nullptr, nullptr, nullptr, nullptr, true}));
    REQUIRE(heddle::onednn::conv2d_backward_data_supports({g, nullptr, nullptr, nullptr}));
    REQUIRE(
        heddle::onednn::conv2d_backward_weight_supports({g, nullptr, nullptr, nullptr, nullptr}));
  }
}

TEST_CASE("a ReLU fused into oneDNN's convolution keeps NaN and gives zeros") {
  heddle::Conv2dGeometry g = geometry(1, 16, 6, 6, 16, 3, 1, 1, 1, 1);
  const std::vector<float> x(static_cast<size_t>(x_size(g)), 0.0F);
  const std::vector<float> w(static_cast<size_t>(w_size(g)), 0.0F);
  std::vector<float> bias(16, -1.0F);
  bias[3] = std::numeric_limits<float>::quiet_NaN();
  bias[4] = -std::numeric_limits<float>::max();
  Guarded<float> y(y_size(g));
  heddle::onednn::conv2d_forward({g, y.data(), x.data(), w.data(), bias.data(), true});
  REQUIRE(std::isnan(y.data()[3]));
  REQUIRE(y.data()[0] == 0.0F);
  REQUIRE(y.data()[5] == 0.0F);
  REQUIRE(std::abs(y.data()[4]) < 1e-5F);
}

TEST_CASE("oneDNN refuses what it cannot do, and the native kernel then runs") {
  heddle::Conv2dGeometry g = geometry(1, 4, 5, 5, 4, 3, 1, 1, 1, 1);
  g.dtype = heddle::DType::kFloat64;
  REQUIRE_FALSE(heddle::onednn::conv2d_forward_supports({g, nullptr, nullptr, nullptr, nullptr}));
  g.dtype = heddle::DType::kFloat16;
  REQUIRE_FALSE(heddle::onednn::conv2d_backward_data_supports({g, nullptr, nullptr, nullptr}));
  g.dtype = heddle::DType::kFloat32;
  g.batch = 0;
  REQUIRE_FALSE(heddle::onednn::conv2d_forward_supports({g, nullptr, nullptr, nullptr, nullptr}));

  const ProviderScope scope(Provider::kVendor);
  const std::vector<double> x{1, 2}, w{3, 4};
  double y = 0.0;
  const heddle::LinearForwardArgs args{
      heddle::DType::kFloat64, 1, 2, 1, &y, x.data(), w.data(), nullptr};
  REQUIRE_FALSE(heddle::onednn::linear_forward_supports(args));
  HEDDLE_DISPATCH_VENDOR(heddle::Device::cpu(), linear_forward, args);
  REQUIRE(y == 11.0);
}

// Linear ------------------------------------------------------------------------------------------

template <class T>
void check_linear(int64_t rows, int64_t in, int64_t out, bool relu) {
  const heddle::DType dtype = heddle::dtype_of<T>;
  const auto x = random_values(rows * in, 7), w = random_values(out * in, 8);
  const auto bias = random_values(out, 9), dy = random_values(rows * out, 10);
  const auto x_t = rounded<T>(x), w_t = rounded<T>(w), bias_t = rounded<T>(bias);
  const auto dy_t = rounded<T>(dy);
  std::vector<double> y(dy.size()), dx(x.size()), dw(w.size()), db(bias.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < out; ++o) {
      double sum = bias[o];
      for (int64_t i = 0; i < in; ++i) {
        sum += x[r * in + i] * w[o * in + i];
        dx[r * in + i] += dy[r * out + o] * w[o * in + i];
        dw[o * in + i] += dy[r * out + o] * x[r * in + i];
      }
      y[r * out + o] = relu ? std::max(sum, 0.0) : sum;
      db[o] += dy[r * out + o];
    }

  Guarded<T> y_t(rows * out), dx_t(rows * in), dw_t(out * in), db_t(out);
  const heddle::LinearForwardArgs forward{
      dtype, rows, in, out, y_t.data(), x_t.data(), w_t.data(), bias_t.data(), relu};
  if (!heddle::onednn::linear_forward_supports(forward)) return;  // bfloat16 without AVX-512
  heddle::onednn::linear_forward(forward);
  y_t.require_near(y, in);
  const heddle::LinearBackwardDataArgs data{dtype,       rows,        in,        out,
                                            dx_t.data(), dy_t.data(), w_t.data()};
  REQUIRE(heddle::onednn::linear_backward_data_supports(data));
  heddle::onednn::linear_backward_data(data);
  dx_t.require_near(dx, out);
  const heddle::LinearBackwardWeightArgs weight{dtype,       rows,        in,         out,
                                                dw_t.data(), db_t.data(), x_t.data(), dy_t.data()};
  REQUIRE(heddle::onednn::linear_backward_weight_supports(weight));
  heddle::onednn::linear_backward_weight(weight);
  dw_t.require_near(dw, rows);
  db_t.require_near(db, rows);
}

TEST_CASE("oneDNN linear matches the float64 oracle") {
  for (const bool relu : {false, true}) {
    check_linear<float>(1, 1, 1, relu);
    check_linear<float>(5, 33, 10, relu);
    check_linear<float>(64, 256, 128, relu);
    check_linear<BFloat16>(3, 31, 70, relu);
    check_linear<BFloat16>(64, 256, 128, relu);
  }
}

TEST_CASE("linear without a bias") {
  const std::vector<float> x{1, 2, 3, 4}, w{1, 0, 0, 1, 1, 1};
  Guarded<float> y(6);
  heddle::onednn::linear_forward(
      {heddle::DType::kFloat32, 2, 2, 3, y.data(), x.data(), w.data(), nullptr});
  y.require_near({1, 2, 3, 3, 4, 7}, 2);
}

// Choosing ----------------------------------------------------------------------------------------

TEST_CASE("auto times both providers once and records the choice") {
  const ProviderScope scope(Provider::kAuto);
  const std::vector<float> x(17 * 19, 1.0F), w(23 * 19, 2.0F);
  Guarded<float> y(17 * 23);
  const heddle::LinearForwardArgs args{
      heddle::DType::kFloat32, 17, 19, 23, y.data(), x.data(), w.data(), nullptr};
  REQUIRE(heddle::provider_choices().count(args.key()) == 0);
  HEDDLE_DISPATCH_VENDOR(heddle::Device::cpu(), linear_forward, args);
  y.require_near(std::vector<double>(17 * 23, 38.0), 19);
  const std::string choice = heddle::provider_choices().at(args.key());
  REQUIRE((choice == "native" || choice == "vendor"));
}

// What runs tells by what it writes.
struct ToyArgs {
  int* who;
  std::string name;
  std::string key() const { return name; }
};
void toy_native(const ToyArgs& args) { *args.who = 1; }
void toy_vendor(const ToyArgs& args) { *args.who = 2; }

TEST_CASE("recorded provider choices are taken up again") {
  const ProviderScope scope(Provider::kAuto);
  const heddle::Candidates<ToyArgs> both{&toy_native, &toy_vendor};
  REQUIRE(heddle::set_provider_choices({{"toy a", "vendor"}, {"toy b", "native"}}) == 0);
  int who = 0;
  heddle::run_provider(ToyArgs{&who, "toy a"}, both);
  REQUIRE(who == 2);
  heddle::run_provider(ToyArgs{&who, "toy b"}, both);
  REQUIRE(who == 1);
  REQUIRE_THROWS_WITH(heddle::set_provider_choices({{"toy c", "other"}}),
                      ContainsSubstring("expected native or vendor"));
}

#else

TEST_CASE("a recorded vendor choice in a build without one is counted and left out") {
  if (heddle::built_with_vendor()) return;
  REQUIRE(heddle::set_provider_choices({{"toy a", "vendor"}, {"toy b", "native"}}) == 1);
  REQUIRE(heddle::provider_choices().count("toy a") == 0);
}

#endif

}  // namespace
