#include "heddle/nn/amp/autocast.h"

#include <cmath>
#include <limits>
#include <thread>

#include "heddle/core/kept_cast.h"
#include "heddle/core/tape.h"
#include "heddle/nn/modules/batch_norm2d.h"
#include "heddle/nn/modules/conv2d.h"
#include "heddle/nn/modules/linear.h"
#include "heddle/nn/modules/pooling.h"
#include "heddle/nn/modules/sequential.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/optim/adam.h"
#include "heddle/nn/optim/sgd.h"
#include "heddle/tests/nn/golden/formula.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

Sequential net() {
  manual_seed(6);
  return Sequential(Conv2d(3, 8, 3, {.padding = 1}), BatchNorm2d(8, {.fuse_relu = true}),
                    MaxPool2d(2), Linear(ImageSize{8, 4, 4}, 10));
}

/// Gradients of all parameters, and the loss last.
std::vector<Tensor> gradients(Module& model) {
  model.zero_grad();
  const Tensor loss = cross_entropy(model(golden::pictures({8, 3, 8, 8})), golden::labels(8));
  loss.backward();
  std::vector<Tensor> result;
  for (const Tensor& parameter : model.parameters()) result.push_back(parameter.grad());
  result.push_back(loss.detach());
  return result;
}

double relative_distance(const Tensor& a, const Tensor& b) {
  double distance = 0.0, norm = 0.0;
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) {
    distance += (x[i] - y[i]) * (x[i] - y[i]);
    norm += y[i] * y[i];
  }
  return std::sqrt(distance / (norm + 1e-12));
}

TEST_CASE("autocast: 16-bit arithmetic, float32 parameters and gradients") {
  Sequential model = net();
  const std::vector<Tensor> expected = gradients(model);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    INFO(name_of(dtype));
    const Autocast scope(dtype);
    CHECK(model(golden::pictures({8, 3, 8, 8})).dtype() == dtype);
    const std::vector<Tensor> found = gradients(model);
    for (size_t i = 0; i < found.size(); ++i) {
      // A bias before a batch norm has no gradient but rounding. Rounded values tie in the max
      // pooling, whose gradient then goes elsewhere.
      if (model.named_parameters()[std::min<size_t>(i, 5)].first == "0.bias") continue;
      INFO("number " << i);
      CHECK(relative_distance(found[i], expected[i]) < (dtype == DType::kFloat16 ? 0.05 : 0.2));
      if (i + 1 < found.size()) CHECK(found[i].dtype() == DType::kFloat32);
    }
  }
}

TEST_CASE("autocast: training in bfloat16 learns") {
  Sequential model = net();
  Adam adam(model.parameters(), {.lr = 1e-2});
  const double first = gradients(model).back().item();
  const Autocast scope(DType::kBFloat16);
  for (int step = 0; step < 20; ++step) {
    gradients(model);
    adam.step();
  }
  CHECK(gradients(model).back().item() < 0.2 * first);
}

TEST_CASE("autocast: holds on its thread, while it lives, and can be switched off inside") {
  const Tensor x = ones({2});
  const auto dtype_now = [&] { return autocast(x).dtype(); };
  CHECK(autocast(x).is_same(x));
  {
    const Autocast scope(DType::kBFloat16);
    CHECK(dtype_now() == DType::kBFloat16);
    DType on_thread = DType::kInt64;
    std::thread([&] { on_thread = dtype_now(); }).join();
    CHECK(on_thread == DType::kFloat32);
    {
      const Autocast off(DType::kFloat32);
      CHECK(dtype_now() == DType::kFloat32);
    }
    CHECK(dtype_now() == DType::kBFloat16);
    CHECK(autocast(ones({2}, DType::kInt64)).dtype() == DType::kInt64);
    CHECK(autocast(ones({2}, DType::kFloat64)).dtype() == DType::kFloat64);
    CHECK_FALSE(autocast(Tensor()).defined());
  }
  CHECK(dtype_now() == DType::kFloat32);
  CHECK_THROWS_WITH(Autocast(DType::kFloat64), ContainsSubstring("dtype is float64"));
}

TEST_CASE("autocast: operations follow PyTorch's lists, gradients their inputs") {
  for (const DType half : {DType::kBFloat16, DType::kFloat16}) {
    Tensor a = ones({2, 3}), b = ones({3, 2}), narrow_x = to(ones({2, 3}), half);
    for (Tensor* leaf : {&a, &b, &narrow_x}) leaf->set_requires_grad();
    const Tensor labels = zeros({2}, DType::kInt64);
    {
      const Autocast scope(half);
      CHECK(matmul(a, b).dtype() == half);
      CHECK(linear(a, ones({4, 3}), Tensor()).dtype() == half);
      CHECK(conv2d(ones({1, 3, 4, 4}), ones({2, 3, 3, 3}), Tensor()).dtype() == half);
      for (const Tensor& wide : {sum(narrow_x), exp(narrow_x), log(narrow_x), log_softmax(narrow_x),
                                 cross_entropy(narrow_x, labels)})
        CHECK(wide.dtype() == DType::kFloat32);
      CHECK(relu(narrow_x).dtype() == half);
      CHECK((narrow_x + a).dtype() == DType::kFloat32);
      cross_entropy(matmul(a, b), labels).backward();
      sum(narrow_x + to(zeros({3}), half)).backward();
      CHECK(a.grad().dtype() == DType::kFloat32);
      CHECK(narrow_x.grad().dtype() == half);
    }
    CHECK(sum(narrow_x).dtype() == half);
    CHECK(matmul(a, b).dtype() == DType::kFloat32);
  }
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.to_vector<float>() == b.to_vector<float>();
}

template <class Optimizer>
void check_kept_through_steps(Sequential& model, Optimizer& optimizer, DType dtype) {
  const Autocast scope(dtype);
  for (int step = 0; step < 3; ++step) {
    gradients(model);
    const Tensor weight = model.named_parameters()[0].second;
    const void* memory = kept_cast(weight, dtype).raw_data();
    optimizer.step();
    for (const auto& [name, parameter] : model.named_parameters()) {
      INFO(name << " after step " << step);
      const Tensor copy = kept_cast(parameter, dtype);
      if (name.starts_with("1.")) {  // batch norm reads its parameters in float32
        CHECK_FALSE(copy.defined());
        continue;
      }
      REQUIRE(copy.defined());
      CHECK(same_elements(copy, to(parameter.detach(), dtype)));
    }
    CHECK(kept_cast(weight, dtype).raw_data() == memory);
  }
}

TEST_CASE("autocast: what it reads of a parameter is kept, and an optimizer's step writes both") {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    INFO(name_of(dtype));
    Sequential model = net();
    Adam adam(model.parameters(), {.lr = 1e-2});
    check_kept_through_steps(model, adam, dtype);
    Sgd sgd(model.parameters(), {.lr = 1e-2, .momentum = 0.9});
    check_kept_through_steps(model, sgd, dtype);
  }
}

TEST_CASE("autocast: a parameter that was written is converted again") {
  const Autocast scope(DType::kBFloat16);
  Tensor weight = ones({2, 3});
  weight.set_requires_grad();
  const Tensor x = ones({1, 3});
  CHECK(linear(x, weight, Tensor()).at({0, 1}) == 3.0);
  CHECK(kept_cast(weight, DType::kBFloat16).defined());
  CHECK_FALSE(kept_cast(weight, DType::kFloat16).defined());
  {
    const NoGradGuard no_grad;
    fill_(weight, 2.0);
  }
  CHECK_FALSE(kept_cast(weight, DType::kBFloat16).defined());
  CHECK_FALSE(take_cast(weight).defined());
  CHECK(linear(x, weight, Tensor()).at({0, 1}) == 6.0);
  CHECK_THROWS_WITH(keep_cast(weight, ones({2})), ContainsSubstring("keep_cast"));
}

TEST_CASE("autocast: a copy that a graph still holds keeps its values through a step") {
  const Autocast scope(DType::kBFloat16);
  Tensor weight = ones({2, 3});
  weight.set_requires_grad();
  Tensor x = ones({1, 3});
  x.set_requires_grad();
  Sgd sgd({weight}, {.lr = 1.0});
  const Tensor loss = sum(linear(x, weight, Tensor()));
  loss.backward({}, /*retain_graph=*/true);
  sgd.step();
  x.set_grad({});
  loss.backward();
  CHECK(x.grad().at({0, 0}) == 2.0);                     // of the weight from before the step
  CHECK(linear(x, weight, Tensor()).at({0, 0}) == 0.0);  // of the one from after it
}

TEST_CASE("autocast: a skipped step leaves the kept copy as it is") {
  const Autocast scope(DType::kBFloat16);
  Tensor weight = ones({2, 3});
  weight.set_requires_grad();
  Sgd sgd({weight}, {.lr = 1.0});
  sum(linear(ones({1, 3}), weight, Tensor())).backward();
  weight.set_grad(full({2, 3}, std::numeric_limits<double>::infinity()));
  sgd.begin_step();
  sgd.check_gradients();
  sgd.apply_step();
  CHECK_FALSE(sgd.finish_step());
  CHECK(linear(ones({1, 3}), weight, Tensor()).at({0, 0}) == 3.0);
}

TEST_CASE("autocast: a linear layer's gradients reach a float32 weight as they were summed") {
  // 257 needs nine bits: bfloat16 would round it to 256.
  const Autocast scope(DType::kBFloat16);
  Tensor weight = zeros({1, 2}), bias = zeros({1});
  weight.set_requires_grad();
  bias.set_requires_grad();
  sum(linear(ones({257, 2}), weight, bias)).backward();
  CHECK(weight.grad().at({0, 1}) == 257.0);
  CHECK(bias.grad().at({0}) == 257.0);
}

}  // namespace
}  // namespace heddle
