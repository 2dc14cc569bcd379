#include "heddle/nn/module.h"

#include <cmath>
#include <map>
#include <set>

#include "heddle/core/tape.h"
#include "heddle/nn/models/factory.h"
#include "heddle/nn/models/resnet18.h"
#include "heddle/nn/models/simple_cnn.h"
#include "heddle/nn/modules/activation.h"
#include "heddle/nn/modules/batch_norm2d.h"
#include "heddle/nn/modules/dropout.h"
#include "heddle/nn/modules/flatten.h"
#include "heddle/nn/modules/pooling.h"
#include "heddle/nn/modules/sequential.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

class Net : public Module {
 public:
  Tensor forward(const Tensor& x) override { return fc(relu(flatten(bn(conv(x)), 1))); }
  Conv2d& conv = add("conv1", Conv2d(3, 4, 3, {.padding = 1}));
  BatchNorm2d& bn = add("bn", BatchNorm2d(4));
  Linear& fc = add("fc", Linear(4 * 4 * 4, 5));
};

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

Tensor ramp(const Shape& shape) {
  std::vector<float> values;
  for (int64_t i = 0; i < numel(shape); ++i) values.push_back(std::sin(static_cast<float>(i)));
  return Tensor::from(values, shape);
}

std::map<std::string, std::vector<double>> content(const Module& model) {
  std::map<std::string, std::vector<double>> result;
  for (const auto& [name, tensor] : model.state()) result[name] = tensor.to_vector<double>();
  return result;
}

void set(NamedTensors& state, const std::string& name, const Tensor& tensor) {
  for (auto& [key, value] : state)
    if (key == name) value = tensor;
}

TEST_CASE("module: parameters, buffers and their full names") {
  Net net;
  CHECK(names_of(net.named_parameters()) == std::vector<std::string>{"conv1.weight", "conv1.bias",
                                                                     "bn.weight", "bn.bias",
                                                                     "fc.weight", "fc.bias"});
  CHECK(names_of(net.named_buffers()) ==
        std::vector<std::string>{"bn.running_mean", "bn.running_var", "bn.num_batches_tracked"});
  for (const auto& [name, tensor] : net.named_parameters()) {
    CHECK(tensor.name() == name);
    CHECK(tensor.requires_grad());
  }
  CHECK(net.parameter_count() == 4 * 27 + 4 + 4 + 4 + 5 * 64 + 5);
  CHECK(net.named_modules().size() == 4);
  Net moved(std::move(net));  // parts stay where they are
  CHECK(moved(ramp({2, 3, 4, 4})).shape() == Shape{2, 5});
}

TEST_CASE("module: the models have PyTorch's names and shapes") {
  const std::map<std::string, Shape> simple{{"conv1.weight", {32, 3, 3, 3}},
                                            {"conv1.bias", {32}},
                                            {"conv2.weight", {64, 32, 3, 3}},
                                            {"conv2.bias", {64}},
                                            {"fc1.bias", {128}},
                                            {"fc1.weight", {128, 65536}},
                                            {"fc2.weight", {10, 128}},
                                            {"fc2.bias", {10}}};
  const SimpleCnn model;
  const NamedTensors state = model.state();
  REQUIRE(state.size() == simple.size());
  for (const auto& [name, tensor] : state) {
    CHECK(tensor.shape() == simple.at(name));
    CHECK(tensor.is_contiguous());
  }
  const ResNet18 resnet;
  std::map<std::string, Shape> shapes;
  for (const auto& [name, tensor] : resnet.state()) shapes[name] = tensor.shape();
  CHECK(shapes.size() == 122);
  CHECK(resnet.parameter_count() == 11'173'962);
  CHECK(shapes.at("layer1.0.conv1.weight") == Shape{64, 64, 3, 3});
  CHECK(shapes.at("layer2.0.downsample.0.weight") == Shape{128, 64, 1, 1});
  CHECK(shapes.at("layer4.1.bn2.running_var") == Shape{512});
  CHECK(shapes.at("layer4.0.downsample.1.num_batches_tracked") == Shape{});
  CHECK(shapes.at("fc.weight") == Shape{10, 512});
}

TEST_CASE("module: models by name") {
  for (const std::string& name : model_names()) CHECK(make_model(name) != nullptr);
  CHECK_THROWS_AS(make_model("alexnet"), UsageError);
  CHECK_THROWS_WITH(make_model("alexnet"), ContainsSubstring("simple_cnn, resnet18"));
}

TEST_CASE("module: initial values are PyTorch's distribution, the same for a seed") {
  manual_seed(3);
  const Conv2d a(16, 8, 3);
  const Conv2d b(16, 8, 3);
  manual_seed(3);
  const Conv2d again(16, 8, 3);
  const std::vector<float> values = a.weight.to_vector<float>();
  CHECK(values == again.weight.to_vector<float>());
  CHECK(values != b.weight.to_vector<float>());
  const double bound = 1.0 / std::sqrt(16 * 9);
  double squares = 0.0, most = 0.0;
  for (const float value : values) {
    squares += static_cast<double>(value) * value;
    most = std::max(most, std::abs(static_cast<double>(value)));
  }
  CHECK(most <= bound);
  CHECK(most > 0.95 * bound);
  CHECK(squares / static_cast<double>(values.size()) == Approx(bound * bound / 3).epsilon(0.1));
  CHECK(a.weight.is_contiguous(MemoryFormat::kChannelsLast));
  // Drawn in row-major order whatever the storage.
  manual_seed(3);
  CHECK(rand({8, 16, 3, 3}, next_init_stream(), -bound, bound).to_vector<float>() == values);
}

TEST_CASE("module: a state loads into another module of the kind, whole") {
  manual_seed(1);
  Net a;
  a(ramp({2, 3, 4, 4}));  // moves the running statistics
  Net b;
  CHECK(content(a) != content(b));
  b.load_state(a.state());
  CHECK(content(a) == content(b));
  CHECK(b.conv.weight.is_contiguous(MemoryFormat::kChannelsLast));
  CHECK(b.bn.num_batches_tracked.item() == 1.0);
  a.eval();
  b.eval();
  const Tensor x = ramp({2, 3, 4, 4});
  CHECK(a(x).to_vector<float>() == b(x).to_vector<float>());
}

TEST_CASE("module: a state that does not fit is refused whole, all names at once") {  // CK-2
  manual_seed(1);
  Net net;
  const auto before = content(net);
  NamedTensors state = net.state();
  state.erase(std::prev(state.end()));  // fc.bias
  state.emplace_back("foo", Tensor::from<float>({1}, {1}));
  set(state, "conv1.weight", to(state[0].second, DType::kFloat16));
  set(state, "conv1.bias", ones({5}));
  set(state, "bn.weight", full({4}, 7.0));  // fits, but must not be taken
  CHECK_THROWS_WITH(
      net.load_state(state),
      ContainsSubstring("1 missing: fc.bias") && ContainsSubstring("1 unexpected: foo") &&
          ContainsSubstring("2 mismatching: conv1.weight is float16 (4, 3, 3, 3), expected float32 "
                            "(4, 3, 3, 3), conv1.bias is float32 (5), expected float32 (4)"));
  CHECK(content(net) == before);

  state = net.state();
  state[0].first = "module.conv1.weight";
  CHECK_THROWS_WITH(net.load_state(state),
                    ContainsSubstring("missing: conv1.weight") &&
                        ContainsSubstring("unexpected: module.conv1.weight"));
  state = net.state();
  set(state, "conv1.weight", reshape(state[0].second, {4, 27}));
  CHECK_THROWS_WITH(net.load_state(state), ContainsSubstring("conv1.weight is float32 (4, 27)"));
  state = net.state();
  state.push_back(state[0]);
  CHECK_THROWS_WITH(net.load_state(state), ContainsSubstring("conv1.weight (twice)"));
  CHECK(content(net) == before);
}

TEST_CASE("module: names that repeat, are empty or have a dot are refused") {
  class Broken : public Module {
   public:
    explicit Broken(const std::string& name) {
      add("a", ReLU());
      add(name, ReLU());
    }
    Tensor forward(const Tensor& x) override { return x; }
  };
  CHECK_THROWS_WITH(Broken("a"), ContainsSubstring("\"a\" is there twice"));
  CHECK_THROWS_WITH(Broken(""), ContainsSubstring("is empty"));
  CHECK_THROWS_WITH(Broken("b.c"), ContainsSubstring("has a dot"));
  CHECK_NOTHROW(Broken("b"));
}

TEST_CASE("module: in a 16-bit dtype batch-norm keeps its own tensors in float32") {
  Net net;
  net.to(DType::kBFloat16);
  CHECK(net.conv.weight.dtype() == DType::kBFloat16);
  for (const Tensor& tensor : {net.bn.weight, net.bn.bias, net.bn.running_mean, net.bn.running_var})
    CHECK(tensor.dtype() == DType::kFloat32);
  const Tensor y = net(to(ramp({2, 3, 4, 4}), DType::kBFloat16));
  CHECK(y.dtype() == DType::kBFloat16);
  sum(y).backward();
  CHECK(net.conv.weight.grad().dtype() == DType::kBFloat16);
}

TEST_CASE("module: conversion to another dtype keeps names and integers") {
  Net net;
  net.to(DType::kFloat64);
  for (const auto& [name, tensor] : net.named_parameters()) {
    CHECK(tensor.dtype() == DType::kFloat64);
    CHECK(tensor.name() == name);
    CHECK(tensor.requires_grad());
    CHECK(tensor.is_leaf());
  }
  CHECK(net.bn.running_mean.dtype() == DType::kFloat64);
  CHECK(net.bn.num_batches_tracked.dtype() == DType::kInt64);
  const Tensor y = net(to(ramp({2, 3, 4, 4}), DType::kFloat64));
  CHECK(y.dtype() == DType::kFloat64);
  sum(y).backward();
  CHECK(net.conv.weight.grad().defined());
  net.zero_grad();
  CHECK_FALSE(net.conv.weight.grad().defined());
  CHECK_THROWS_WITH(net.to(DType::kInt64), ContainsSubstring("expected a floating"));
  CHECK_NOTHROW(net.to(Device::cpu()));
  CHECK_THROWS_AS(net.to(Device{DeviceType::kCuda, 0}), Error);
}

TEST_CASE("module: training and evaluation reach every part") {
  Net net;
  CHECK(net.bn.is_training());
  net.eval();
  CHECK_FALSE(net.bn.is_training());
  const auto before = content(net);
  net(ramp({2, 3, 4, 4}));
  CHECK(content(net) == before);
  net.train();
  CHECK(net.bn.is_training());
}

TEST_CASE("module: a hook sees every forward with its name, innermost first") {
  Net net;
  std::vector<std::string> seen;
  {
    const ForwardHook hook(
        net, [&](const std::string& name, Module& module, const Tensor& x, const Tensor& y) {
          seen.push_back(name);
          CHECK(x.defined());
          CHECK(y.defined());
          CHECK_FALSE(module.describe().empty());
        });
    net(ramp({2, 3, 4, 4}));
  }
  CHECK(seen == std::vector<std::string>{"conv1", "bn", "fc", ""});
  net(ramp({2, 3, 4, 4}));
  CHECK(seen.size() == 4);
}

TEST_CASE("modules: a linear over images is flatten and linear") {
  manual_seed(5);
  Linear image(ImageSize{3, 4, 5}, 7);
  Linear flat(3 * 4 * 5, 7);
  flat.load_state(image.state());
  CHECK(image.weight.is_contiguous(MemoryFormat::kChannelsLast));
  const Tensor x = contiguous(ramp({2, 3, 4, 5}), MemoryFormat::kChannelsLast);
  const Tensor a = image(x);
  const Tensor b = flat(flatten(x, 1));
  REQUIRE(a.shape() == Shape{2, 7});
  for (size_t i = 0; i < 14; ++i)
    CHECK(a.to_vector<float>()[i] == Approx(b.to_vector<float>()[i]).margin(1e-5));
  sum(a).backward();
  sum(b).backward();
  const std::vector<float> da = image.weight.grad().to_vector<float>();
  const std::vector<float> db = flat.weight.grad().to_vector<float>();
  for (size_t i = 0; i < da.size(); ++i) CHECK(da[i] == Approx(db[i]).margin(1e-5));
  // The initial values are those of the plain form, too.
  manual_seed(5);
  const Linear again(3 * 4 * 5, 7);
  CHECK(again.weight.to_vector<float>() == image.state()[0].second.to_vector<float>());
}

TEST_CASE("modules: a sequence runs its parts in order") {
  manual_seed(2);
  Sequential net(Conv2d(3, 4, 3, {.padding = 1}), ReLU(), MaxPool2d(2), AvgPool2d(2),
                 AdaptiveAvgPool2d(), Flatten(), Linear(4, 2, {.bias = false}), GELU());
  CHECK(names_of(net.state()) == std::vector<std::string>{"0.weight", "0.bias", "6.weight"});
  CHECK(net(ramp({2, 3, 8, 8})).shape() == Shape{2, 2});
  CHECK(net.size() == 8);
  CHECK_THROWS_WITH(AdaptiveAvgPool2d(2), ContainsSubstring("size is 2"));
}

TEST_CASE("modules: descriptions say what differs from the plain layer") {
  CHECK(Conv2d(3, 32, 3).describe() == "Conv2d(3, 32, kernel 3x3)");
  CHECK(Conv2d(4, 8, {1, 3},
               {.stride = 2,
                .padding = {0, 1},
                .dilation = 2,
                .groups = 2,
                .bias = false,
                .fuse_relu = true})
            .describe() ==
        "Conv2d(4, 8, kernel 1x3, stride 2x2, padding 0x1, dilation 2x2, groups 2, no bias, relu)");
  CHECK(Linear(2, 3).describe() == "Linear(2, 3)");
  CHECK(Linear(2, 3, {.bias = false, .fuse_relu = true}).describe() ==
        "Linear(2, 3, no bias, relu)");
  CHECK(BatchNorm2d(4, {.fuse_relu = true}).describe() == "BatchNorm2d(4, relu)");
  CHECK(MaxPool2d({.kernel = {3, 3}, .stride = {{2, 2}}, .padding = {1, 1}}).describe() ==
        "MaxPool2d(3x3, stride 2x2, padding 1x1)");
  CHECK(AvgPool2d(2).describe() == "AvgPool2d(2x2)");
  CHECK(Dropout(0.25).describe() == "Dropout(0.25)");
}

TEST_CASE("modules: impossible sizes are refused") {
  CHECK_THROWS_WITH(Conv2d(3, 4, 3, {.groups = 2}), ContainsSubstring("groups 2"));
  CHECK_THROWS_WITH(Conv2d(3, 4, 0), ContainsSubstring("kernel 0x0"));
  CHECK_THROWS_WITH(Linear(0, 4), ContainsSubstring("in 0"));
  CHECK_THROWS_WITH(Linear(ImageSize{3, 0, 4}, 4), ContainsSubstring("(3, 0, 4)"));
  CHECK_THROWS_WITH(Dropout(1.5), ContainsSubstring("probability is 1.5"));
}

TEST_CASE("batch norm module: running statistics are PyTorch's, one value is refused") {  // NU-9
  BatchNorm2d bn(1);
  const Tensor y = bn(Tensor::from<float>({1, 3}, {2, 1, 1, 1}));
  CHECK(y.to_vector<float>()[0] == Approx(-0.999995).epsilon(1e-6));
  CHECK(y.to_vector<float>()[1] == Approx(0.999995).epsilon(1e-6));
  CHECK(bn.running_mean.item() == Approx(0.2));
  CHECK(bn.running_var.item() == Approx(1.1));
  CHECK(bn.num_batches_tracked.item() == 1.0);
  const auto before = content(bn);
  CHECK_THROWS_AS(bn(Tensor::from<float>({5}, {1, 1, 1, 1})), Error);
  CHECK(content(bn) == before);
  CHECK_NOTHROW(bn(Tensor::from<float>({1, 2, 3, 4}, {1, 1, 2, 2})));
}

TEST_CASE("dropout module: masks are a function of seed, layer and step") {
  manual_seed(11);
  Dropout a(0.5), b(0.5);
  const Tensor x = ones({64});
  const auto mask = [&](Dropout& layer) { return layer(x).to_vector<float>(); };
  a.set_step(3);
  const std::vector<float> third = mask(a);
  CHECK(mask(a) != third);  // counts on by itself
  a.set_step(3);
  CHECK(mask(a) == third);
  b.set_step(3);
  CHECK(mask(b) != third);
  manual_seed(11);
  Dropout again(0.5);
  again.set_step(3);
  CHECK(mask(again) == third);
  CHECK(std::set<float>(third.begin(), third.end()) == std::set<float>{0.0F, 2.0F});
  a.eval();
  CHECK(mask(a) == std::vector<float>(64, 1.0F));
}

}  // namespace
}  // namespace heddle
