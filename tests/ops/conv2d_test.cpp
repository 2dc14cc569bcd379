#include "heddle/kernels/conv2d.h"

#include "heddle/nn/ops.h"
#include "heddle/tests/support/conv2d_products.h"
#include "heddle/tests/support/device.h"
#include "heddle/tests/support/product_cases.h"

namespace heddle {
namespace {

using test::Guarded;
using test::largest_difference;
using test::product_tolerance;
using test::random_values;
using test::SettingsGuard;
using testing::each_conv2d_product;
using testing::on_test_device;
using testing::test_device;

int64_t out_size(int64_t in, int64_t k, int64_t stride, int64_t pad, int64_t dilation) {
  return (in + 2 * pad - dilation * (k - 1) - 1) / stride + 1;
}

struct Row {
  int64_t n, c, h, w, o, kh, kw;
  int64_t sh = 1, sw = 1, ph = 0, pw = 0, dh = 1, dw = 1, groups = 1;

  Conv2dGeometry geometry(DType dtype) const {
    Conv2dGeometry g;
    g.dtype = dtype;
    g.batch = n, g.in_channels = c, g.in_h = h, g.in_w = w, g.out_channels = o;
    g.kernel_h = kh, g.kernel_w = kw, g.stride_h = sh, g.stride_w = sw;
    g.pad_h = ph, g.pad_w = pw, g.dilation_h = dh, g.dilation_w = dw, g.groups = groups;
    g.out_h = out_size(h, kh, sh, ph, dh);
    g.out_w = out_size(w, kw, sw, pw, dw);
    return g;
  }
};

const std::vector<Row> kRows = {
    {1, 1, 1, 1, 1, 1, 1},
    {2, 3, 8, 8, 32, 3, 3, 1, 1, 1, 1},            // the first layer's kind
    {3, 3, 9, 7, 5, 3, 3, 2, 2, 1, 1},             // few channels, with a stride
    {2, 3, 7, 11, 64, 3, 3, 1, 1, 1, 1},           // few channels, pairs of panels
    {1, 8, 9, 9, 64, 7, 7, 2, 1, 3, 3},            // the same, sums in several blocks
    {1, 3, 60, 40, 32, 3, 3, 1, 1, 1, 1},          // few channels, an image in several pieces
    {1, 3, 90, 41, 9, 3, 3, 2, 1, 2, 1, 2, 1},     // the same with a stride and dilation
    {2, 1, 11, 13, 7, 5, 3, 2, 1, 2, 0},           // not square in anything
    {2, 32, 8, 8, 64, 3, 3, 1, 1, 1, 1},           // whole vectors
    {1, 64, 6, 6, 32, 3, 3, 1, 1, 1, 1},           //
    {2, 31, 5, 6, 33, 3, 3, 1, 1, 1, 1},           // around vector lengths
    {2, 33, 6, 5, 31, 3, 2, 1, 1, 1, 1},           //
    {1, 17, 7, 7, 15, 1, 1},                       // 1x1
    {2, 24, 8, 8, 40, 1, 1, 2, 2},                 // 1x1 with stride: classes without taps
    {1, 16, 7, 9, 16, 3, 3, 2, 2, 1, 1},           // stride leaves a remainder
    {1, 10, 12, 11, 9, 3, 3, 3, 2, 1, 2, 2, 1},    // stride and dilation differ
    {1, 9, 12, 12, 10, 2, 3, 2, 3, 0, 1, 3, 2},    //
    {2, 12, 6, 6, 18, 3, 3, 1, 1, 1, 1, 1, 1, 3},  // groups
    {2, 8, 6, 6, 8, 3, 3, 2, 2, 1, 1, 1, 1, 8},    // depthwise
    {1, 66, 5, 5, 34, 3, 3, 1, 1, 1, 1, 1, 1, 2},  // groups of more than a panel
    {1, 500, 3, 3, 20, 3, 3, 1, 1, 1, 1},          // sums in several blocks
    {1, 20, 3, 3, 500, 3, 3, 1, 1, 1, 1},          //
    {1, 2, 2, 2, 3, 3, 3, 1, 1, 1, 1},             // kernel larger than the image
    {1, 3, 2, 2, 3, 5, 5, 1, 1, 4, 4},             // windows wholly in the padding
    {4, 6, 20, 20, 8, 3, 3, 1, 1, 1, 1},           // several blocks of pixels
    {0, 3, 32, 32, 4, 3, 3, 1, 1, 1, 1},           // empty batch
};

std::string name(const Row& row) { return row.geometry(DType::kFloat32).key(); }

/// One convolution with random operands, and what float64 sums say of it.
template <class T>
struct Case {
  explicit Case(const Row& row)
      : g(row.geometry(dtype_of<T>)),
        x(random_values<T>(g.batch * g.in_h * g.in_w * g.in_channels, 1)),
        w(random_values<T>(g.out_channels * g.kernel_h * g.kernel_w * g.in_channels / g.groups, 2)),
        bias(random_values<T>(g.out_channels, 3)),
        dy(random_values<T>(g.batch * g.out_h * g.out_w * g.out_channels, 4)),
        right_y(static_cast<size_t>(dy.size())),
        right_dx(static_cast<size_t>(x.size())),
        right_dw(static_cast<size_t>(w.size())),
        right_db(static_cast<size_t>(bias.size())) {
    each_conv2d_product(g, [&](int64_t iy, int64_t ix, int64_t iw) {
      right_y[static_cast<size_t>(iy)] += double(x.data()[ix]) * double(w.data()[iw]);
      right_dx[static_cast<size_t>(ix)] += double(dy.data()[iy]) * double(w.data()[iw]);
      right_dw[static_cast<size_t>(iw)] += double(dy.data()[iy]) * double(x.data()[ix]);
    });
    for (int64_t i = 0; i < dy.size(); ++i) {
      right_y[static_cast<size_t>(i)] += double(bias.data()[i % g.out_channels]);
      right_db[static_cast<size_t>(i % g.out_channels)] += double(dy.data()[i]);
    }
  }

  Conv2dGeometry g;
  Guarded<T> x, w, bias, dy;
  std::vector<double> right_y, right_dx, right_dw, right_db;
};

template <class T>
struct Results {
  explicit Results(const Case<T>& c)
      : y(c.dy.size()), dx(c.x.size()), dw(c.w.size()), db(c.bias.size()) {
    cpu::conv2d_forward({c.g, y.data(), c.x.data(), c.w.data(), c.bias.data(), false});
    cpu::conv2d_backward_data({c.g, dx.data(), c.dy.data(), c.w.data()});
    cpu::conv2d_backward_weight({c.g, dw.data(), db.data(), c.x.data(), c.dy.data()});
  }
  bool intact() const { return y.intact() && dx.intact() && dw.intact() && db.intact(); }
  bool same_bits(const Results& o) const {
    return y.same_bits(o.y) && dx.same_bits(o.dx) && dw.same_bits(o.dw) && db.same_bits(o.db);
  }

  Guarded<T> y, dx, dw, db;
};

template <class T>
void check_row(const Row& row) {
  const Case<T> c(row);
  const int64_t per_filter = c.w.size() / c.g.out_channels;
  const int64_t pixels = c.g.batch * c.g.out_h * c.g.out_w;
  for (const cpu::Isa isa : cpu::available_isas()) {
    cpu::set_active_isa(isa);
    INFO(name(row) << " " << cpu::name_of(isa) << " " << name_of(dtype_of<T>));
    const Results<T> r(c);
    CHECK(r.intact());
    CHECK(largest_difference(r.y.to_doubles(), c.right_y) <= product_tolerance<T>(per_filter));
    CHECK(largest_difference(r.dx.to_doubles(), c.right_dx) <=
          product_tolerance<T>(per_filter * c.g.out_channels / c.g.in_channels));
    CHECK(largest_difference(r.dw.to_doubles(), c.right_dw) <= product_tolerance<T>(pixels));
    CHECK(largest_difference(r.db.to_doubles(), c.right_db) <= product_tolerance<T>(pixels));
  }
}

template <class T>
void check_threads(const Row& row) {
  INFO(name(row) << " " << name_of(dtype_of<T>));
  const Case<T> c(row);
  for (const cpu::Isa isa : cpu::available_isas()) {
    cpu::set_active_isa(isa);
    set_num_threads(1);
    const Results<T> one(c);
    for (const int threads : {2, 3}) {
      set_num_threads(threads);
      CHECK(Results<T>(c).same_bits(one));
    }
  }
}

Tensor iota(const Shape& shape, double first) {
  std::vector<float> values(static_cast<size_t>(numel(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(first + double(i));
  return Tensor::from(values, shape);
}

struct Known {
  const char* name;
  Tensor x, w;
  Conv2dOptions options;
  std::vector<float> y, dw, dx;
};

std::vector<Known> known_gradients() {
  std::vector<float> dx_a;
  for (const float r : {1.0F, 1.0F, 2.0F, 1.0F, 1.0F, 0.0F})
    for (const float c : {1.0F, 1.0F, 2.0F, 1.0F, 1.0F, 0.0F}) dx_a.push_back(r * c);
  return {{"stride leaves a remainder",
           iota({1, 1, 6, 6}, 0),
           ones({1, 1, 3, 3}),
           {.stride = {2, 2}},
           {63, 81, 171, 189},
           {28, 32, 36, 52, 56, 60, 76, 80, 84},
           dx_a},
          {"stride and dilation differ",
           iota({1, 1, 1, 8}, 0),
           Tensor::from<float>({1, 10}, {1, 1, 1, 2}),
           {.stride = {1, 2}, .dilation = {1, 3}},
           {30, 52, 74},
           {6, 15},
           {1, 0, 1, 10, 1, 10, 0, 10}},
          {"image not square",
           iota({1, 1, 2, 3}, 1),
           Tensor::from<float>({1, 10}, {1, 1, 1, 2}),
           {},
           {21, 32, 54, 65},
           {12, 16},
           {1, 11, 10, 1, 11, 10}},
          {"strides and pads not square",
           iota({1, 1, 3, 3}, 1),
           Tensor::from<float>({1, 2, 3}, {1, 1, 1, 3}),
           {.stride = {2, 1}, .padding = {0, 1}},
           {8, 14, 8, 38, 50, 26},
           {18, 30, 22},
           {3, 6, 5, 0, 0, 0, 3, 6, 5}}};
}

double loss_of(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& weights,
               const Conv2dOptions& options) {
  return sum(mul(conv2d(x, w, b, options), weights)).item();
}

}  // namespace

TEST_CASE("conv2d: values and gradients agree with float64 sums on every instruction set") {
  const SettingsGuard guard;
  for (const Row& row : kRows) {
    check_row<float>(row);
    check_row<double>(row);
    check_row<BFloat16>(row);
  }
}

TEST_CASE("conv2d: the same bits for any number of threads") {
  const SettingsGuard guard;
  for (const Row& row :
       {kRows[1], kRows[4], kRows[5], kRows[12], Row{16, 16, 24, 24, 32, 3, 3, 1, 1, 1, 1},
        Row{40, 3, 16, 16, 16, 3, 3, 1, 1, 1, 1}}) {
    check_threads<float>(row);
    check_threads<BFloat16>(row);
  }
}

TEST_CASE("conv2d: long pixel sums in several parts agree with float64 sums") {
  const SettingsGuard guard;
  check_row<float>({16, 16, 24, 24, 32, 3, 3, 1, 1, 1, 1});
  check_row<float>({40, 3, 16, 16, 16, 3, 3, 1, 1, 1, 1});
  check_row<float>({1, 96, 16, 16, 200, 3, 3, 1, 1, 1, 1});
  check_row<BFloat16>({17, 16, 24, 24, 32, 3, 3, 1, 1, 1, 1});
  check_row<BFloat16>({3, 96, 16, 16, 200, 3, 3, 1, 1, 1, 1});
}

TEST_CASE("conv2d: ReLU in the epilogue, NaN passes", "[device]") {
  const SettingsGuard guard;
  for (const cpu::Isa isa : cpu::available_isas()) {
    cpu::set_active_isa(isa);
    for (const int64_t o : {3, 32, 48}) {
      const Tensor x = on_test_device(randn({2, 5, 6, 6}, Rng(1, RngPurpose::kUser)));
      const Tensor w = on_test_device(randn({o, 5, 3, 3}, Rng(2, RngPurpose::kUser)));
      const Tensor b = on_test_device(randn({o}, Rng(3, RngPurpose::kUser)));
      const Tensor plain = conv2d(x, w, b, {.padding = {1, 1}});
      const Tensor fused = conv2d(x, w, b, {.padding = {1, 1}, .fuse_relu = true});
      CHECK(fused.to_vector<float>() == relu(plain).to_vector<float>());
    }
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Tensor y = conv2d(on_test_device(full({1, 1, 1, 1}, double(nan))),
                            on_test_device(ones({40, 1, 1, 1})), {}, {.fuse_relu = true});
    for (const float value : y.to_vector<float>()) CHECK(std::isnan(value));
  }
}

TEST_CASE("CV-1, conv2d: known gradients of geometries that go wrong", "[device]") {
  const SettingsGuard guard;
  for (const Known& known : known_gradients()) {
    INFO(known.name);
    Tensor x = clone(on_test_device(known.x));
    Tensor w = clone(on_test_device(known.w));
    x.set_requires_grad();
    w.set_requires_grad();
    const Tensor y = conv2d(x, w, {}, known.options);
    CHECK(y.to_vector<float>() == known.y);
    sum(y).backward();
    CHECK(w.grad().to_vector<float>() == known.dw);
    CHECK(x.grad().to_vector<float>() == known.dx);
    CHECK(x.grad().shape() == x.shape());
  }
}

TEST_CASE("conv2d: gradients agree with central differences") {
  const SettingsGuard guard;
  struct Options {
    Shape x, w;
    Conv2dOptions options;
  };
  const std::vector<Options> cases = {
      {{2, 3, 5, 4}, {4, 3, 3, 3}, {.padding = {1, 1}}},
      {{1, 4, 7, 6}, {6, 2, 3, 2}, {.stride = {2, 3}, .padding = {1, 0}, .groups = 2}},
      {{1, 2, 6, 7}, {3, 2, 2, 3}, {.stride = {2, 1}, .dilation = {2, 3}, .fuse_relu = true}}};
  for (const Options& c : cases) {
    Tensor x = randn(c.x, Rng(1, RngPurpose::kUser), 0.0, 1.0, DType::kFloat64);
    Tensor w = randn(c.w, Rng(2, RngPurpose::kUser), 0.0, 1.0, DType::kFloat64);
    Tensor b = randn({c.w[0]}, Rng(3, RngPurpose::kUser), 0.0, 1.0, DType::kFloat64);
    for (Tensor* t : {&x, &w, &b}) t->set_requires_grad();
    const Tensor y = conv2d(x, w, b, c.options);
    const Tensor weights = randn(y.shape(), Rng(4, RngPurpose::kUser), 0.0, 1.0, DType::kFloat64);
    sum(mul(y, weights)).backward();
    for (Tensor* t : {&x, &w, &b}) {
      const std::vector<double> gradient = t->grad().to_vector<double>();
      const std::vector<double> values = t->to_vector<double>();
      std::vector<double> differences;
      for (size_t i = 0; i < values.size(); ++i) {
        double sides[2];
        for (const int side : {0, 1}) {
          std::vector<double> moved = values;
          moved[i] += side == 0 ? 1e-5 : -1e-5;
          const Tensor other = Tensor::from(moved, t->shape());
          sides[side] = loss_of(t == &x ? other : x.detach(), t == &w ? other : w.detach(),
                                t == &b ? other : b.detach(), weights, c.options);
        }
        differences.push_back((sides[0] - sides[1]) / 2e-5);
      }
      CHECK(largest_difference(gradient, differences) < 1e-7);
    }
  }
}

TEST_CASE("conv2d: only the gradients that are asked for", "[device]") {
  const SettingsGuard guard;
  const Tensor x = on_test_device(randn({2, 3, 5, 5}, Rng(1, RngPurpose::kUser)));
  Tensor w = on_test_device(randn({4, 3, 3, 3}, Rng(2, RngPurpose::kUser)));
  w.set_requires_grad();
  sum(conv2d(x, w, {})).backward();
  CHECK(w.grad().shape() == w.shape());
  CHECK_FALSE(x.grad().defined());
  Tensor image = clone(x);
  image.set_requires_grad();
  sum(conv2d(image, w.detach(), {})).backward();
  CHECK(image.grad().defined());
}

TEST_CASE("AG-6, conv2d: an empty batch gives zero gradients of full shape", "[device]") {
  const SettingsGuard guard;
  Tensor x = on_test_device(zeros({0, 3, 32, 32}));
  Tensor w = on_test_device(ones({4, 3, 3, 3}));
  Tensor b = on_test_device(ones({4}));
  for (Tensor* t : {&x, &w, &b}) t->set_requires_grad();
  const Tensor y = conv2d(x, w, b, {.padding = {1, 1}, .fuse_relu = true});
  CHECK(y.shape() == Shape({0, 4, 32, 32}));
  sum(y).backward();
  CHECK(x.grad().shape() == x.shape());
  CHECK(w.grad().to_vector<float>() == std::vector<float>(108, 0.0F));
  CHECK(b.grad().to_vector<float>() == std::vector<float>(4, 0.0F));
  CHECK(relu(on_test_device(Tensor::from<float>({-1, 2}, {2}))).to_vector<float>() ==
        std::vector<float>{0, 2});
}

TEST_CASE("CV-6 (c), conv2d: a weight that is a transposed view with an offset", "[device]") {
  const SettingsGuard guard;
  const Tensor base = arange(10, DType::kFloat32, test_device());
  const Tensor w = reshape(transpose(reshape(narrow(base, 0, 1, 4), {2, 2}), 0, 1), {1, 1, 2, 2});
  const Tensor view = base.as_strided({1, 1, 2, 2}, {4, 4, 1, 2}, 1);
  const Tensor x = on_test_device(Tensor::from<float>({1, 2, 3, 4}, {1, 1, 2, 2}));
  CHECK(conv2d(x, w, {}).item() == 29.0);
  CHECK(conv2d(x, view, {}).item() == 29.0);
}

TEST_CASE("conv2d: gradients with any strides are read right", "[device]") {
  const SettingsGuard guard;
  Tensor w = on_test_device(randn({3, 2, 2, 2}, Rng(2, RngPurpose::kUser)));
  w.set_requires_grad();
  const Tensor x = on_test_device(randn({1, 2, 4, 5}, Rng(1, RngPurpose::kUser)));
  conv2d(x, w, {}).backward(expand(on_test_device(ones({1, 1, 1, 1})), {1, 3, 3, 4}));
  const std::vector<float> expanded = w.grad().to_vector<float>();
  w.set_grad({});
  conv2d(x, w, {}).backward(on_test_device(ones({1, 3, 3, 4})));
  CHECK(w.grad().to_vector<float>() == expanded);
}

TEST_CASE("conv2d: 16-bit floats are computed in float32 and rounded once") {
  const SettingsGuard guard;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    Tensor x = to(randn({2, 3, 5, 5}, Rng(1, RngPurpose::kUser)), dtype);
    Tensor w = to(randn({4, 3, 3, 3}, Rng(2, RngPurpose::kUser)), dtype);
    Tensor b = to(randn({4}, Rng(3, RngPurpose::kUser)), dtype);
    std::vector<Tensor> wide;
    for (Tensor* t : {&x, &w, &b}) {
      t->set_requires_grad();
      wide.push_back(to(t->detach(), DType::kFloat32));
      wide.back().set_requires_grad();
    }
    const Tensor y = conv2d(x, w, b);
    const Tensor right = conv2d(wide[0], wide[1], wide[2]);
    CHECK(y.to_vector<float>() == to(right.detach(), dtype).to_vector<float>());
    y.backward(to(ones(y.shape()), dtype));
    right.backward(ones(y.shape()));
    CHECK(x.grad().to_vector<float>() == to(wide[0].grad(), dtype).to_vector<float>());
    CHECK(w.grad().to_vector<float>() == to(wide[1].grad(), dtype).to_vector<float>());
    CHECK(b.grad().to_vector<float>() == to(wide[2].grad(), dtype).to_vector<float>());
  }
}

}  // namespace heddle
