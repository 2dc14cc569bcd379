// Whole networks against PyTorch: losses, logits, gradients, parameters and buffers after some
// steps. tests/nn/golden/make_golden.py made the files.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/core/tape.h"
#include "heddle/kernels/provider.h"
#include "heddle/nn/checkpoint/safetensors.h"
#include "heddle/nn/models/resnet18.h"
#include "heddle/nn/models/simple_cnn.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/optim/adam.h"
#include "heddle/nn/optim/sgd.h"
#include "heddle/tests/nn/golden/formula.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle {
namespace {

using nlohmann::json;

const std::string kFolder = std::string(HEDDLE_SOURCE_DIR) + "/tests/nn/golden/";

/// |found - expected| <= tolerance * scale for each.
void check_near(const std::vector<double>& found, const std::vector<double>& expected,
                double tolerance, double scale) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO("value " << i);
    CHECK(std::abs(found[i] - expected[i]) <= tolerance * scale);
  }
}

/// Norm, sum and eight elements, on the scale of the tensor's root mean square.
void check_digest(const Tensor& tensor, const json& digest, double tolerance) {
  const std::vector<double> values = tensor.to_vector<double>();
  const double count = static_cast<double>(values.size());
  double squares = 0.0, sum = 0.0;
  for (const double value : values) {
    squares += value * value;
    sum += value;
  }
  const double norm = digest.at("norm");
  const double rms = norm / std::sqrt(count) + 1e-12;
  CHECK(std::abs(std::sqrt(squares) - norm) <= tolerance * (norm + 1e-12));
  CHECK(std::abs(sum - digest.at("sum").get<double>()) <= tolerance * rms * count);
  const size_t step = std::max<size_t>(1, values.size() / 8);
  std::vector<double> elements;
  for (size_t i = 0; i < values.size() && elements.size() < 8; i += step)
    elements.push_back(values[i]);
  check_near(elements, digest.at("elements"), tolerance, rms * 8);
}

void check_first_step(const Module& model, const Tensor& logits, const json& golden,
                      double tolerance) {
  check_near(logits.to_vector<double>(), golden.at("logits"), tolerance, 1.0);
  const NamedTensors parameters = model.named_parameters();
  REQUIRE(parameters.size() == golden.at("gradients").size());
  for (const auto& [name, parameter] : parameters) {
    INFO("gradient of " << name);
    REQUIRE(golden.at("gradients").contains(name));
    check_digest(parameter.grad(), golden.at("gradients").at(name), tolerance);
  }
}

/// Trains as make_golden.py does and compares. Tolerances are relative; `trained` holds after the
/// optimizer's steps.
void check_training(Module& model, Optimizer& optimizer, const json& golden, double tolerance,
                    double trained) {
  const int64_t batch = golden.at("batch");
  const DType dtype = model.parameters()[0].dtype();
  const Tensor x = to(golden::pictures({batch, 3, 32, 32}), dtype);
  const Tensor y = golden::labels(batch);
  bool first = true;
  for (const double expected : golden.at("losses")) {
    optimizer.zero_grad();
    const Tensor logits = model(x);
    const Tensor loss = cross_entropy(logits, y);
    loss.backward();
    if (first) check_first_step(model, logits, golden, tolerance);
    CHECK(loss.item() == Approx(expected).epsilon(first ? tolerance : trained));
    first = false;
    optimizer.step();
  }
  const NamedTensors state = model.state();
  REQUIRE(state.size() == golden.at("state").size());
  for (const auto& [name, tensor] : state) {
    INFO("state " << name);
    REQUIRE(golden.at("state").contains(name));
    check_digest(tensor, golden.at("state").at(name), trained);
  }
  model.eval();
  const NoGradGuard no_grad;
  check_near(model(x).to_vector<double>(), golden.at("eval_logits"), trained, 10.0);
}

json read_golden(const std::string& name) {
  std::ifstream file(kFolder + name);
  REQUIRE(file.good());
  return json::parse(file);
}

void check_simple_cnn(DType dtype, double tolerance, double trained) {
  SimpleCnn model;
  golden::fill(model);
  model.to(dtype);
  Adam adam(model.parameters(), {.lr = 1e-3});
  check_training(model, adam, read_golden("simple_cnn.json"), tolerance, trained);
}

void check_resnet18(DType dtype, double tolerance, double trained) {
  ResNet18 model;
  golden::fill(model);
  model.to(dtype);
  Sgd sgd(model.parameters(),
          {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  check_training(model, sgd, read_golden("resnet18.json"), tolerance, trained);
}

TEST_CASE("golden: SimpleCnn and Adam in float64 are PyTorch's") {
  check_simple_cnn(DType::kFloat64, 1e-10, 1e-8);
}

// float32 against float64: Adam divides by the size of a gradient, so that the rounding of one near
// zero moves its parameter by up to twice the learning rate.
TEST_CASE("golden: SimpleCnn and Adam in float32 are near PyTorch's, by either provider") {
  for (const Provider provider : {Provider::kNative, Provider::kVendor}) {
    if (provider == Provider::kVendor && !built_with_vendor()) continue;
    INFO(name_of(provider));
    const test::ProviderScope scope(provider);
    check_simple_cnn(DType::kFloat32, 2e-5, 2e-3);
  }
}

TEST_CASE("golden: ResNet-18 and SGD in float64 are PyTorch's") {
  check_resnet18(DType::kFloat64, 1e-9, 1e-8);
}

// oneDNN sums batch-norm in float32, over twenty of them in a row; ours combines pieces in float64.
TEST_CASE("golden: ResNet-18 and SGD in float32 are near PyTorch's, by either provider") {
  for (const Provider provider : {Provider::kNative, Provider::kVendor}) {
    if (provider == Provider::kVendor && !built_with_vendor()) continue;
    INFO(name_of(provider));
    const test::ProviderScope scope(provider);
    check_resnet18(DType::kFloat32, provider == Provider::kVendor ? 1e-3 : 2e-4, 2e-3);
  }
}

class Tiny : public Module {
 public:
  Tensor forward(const Tensor& x) override { return fc(bn(conv(x))); }
  Conv2d& conv = add("conv", Conv2d(3, 4, 3, {.padding = 1}));
  BatchNorm2d& bn = add("bn", BatchNorm2d(4, {.fuse_relu = true}));
  Linear& fc = add("fc", Linear(ImageSize{4, 6, 6}, 5));
};

TEST_CASE("golden: a file of Python's safetensors gives PyTorch's logits") {
  const SafetensorsFile file(kFolder + "pytorch.safetensors");
  Tiny model;
  model.load_state(file.tensors());
  model.eval();
  const NoGradGuard no_grad;
  const Tensor logits = model(golden::pictures({2, 3, 6, 6}));
  check_near(logits.to_vector<double>(), json::parse(file.metadata().at("logits")), 1e-6, 1.0);
}

}  // namespace
}  // namespace heddle
