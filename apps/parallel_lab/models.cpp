#include "heddle/apps/parallel_lab/models.h"

#include "heddle/nn/models/factory.h"
#include "heddle/nn/models/resnet18.h"
#include "heddle/nn/modules/pooling.h"

namespace heddle::lab {
namespace {

/// SimpleCnn's layers with few channels, for images of 8 x 8: 9,194 parameters.
class SmallCnn : public Module {
 public:
  Tensor forward(const Tensor& x) override { return fc2(fc1(conv2(conv1(x)))); }
  std::string describe() const override { return "SmallCnn"; }

  Conv2d& conv1 = add("conv1", Conv2d(3, 8, 3, {.padding = 1, .fuse_relu = true}));
  Conv2d& conv2 = add("conv2", Conv2d(8, 8, 3, {.padding = 1, .fuse_relu = true}));
  Linear& fc1 = add("fc1", Linear(ImageSize{8, 8, 8}, 16));
  Linear& fc2 = add("fc2", Linear(16, 10));
};

/// ResNet-18's layers with few channels, and two blocks, for images of 8 x 8: 5,218 parameters.
class SmallResNet : public Module {
 public:
  Tensor forward(const Tensor& x) override { return fc(pool(block2(block1(bn1(conv1(x)))))); }
  std::string describe() const override { return "SmallResNet"; }

  Conv2d& conv1 = add("conv1", Conv2d(3, 8, 3, {.padding = 1, .bias = false}));
  BatchNorm2d& bn1 = add("bn1", BatchNorm2d(8, {.fuse_relu = true}));
  BasicBlock& block1 = add("block1", BasicBlock(8, 8, 1));
  BasicBlock& block2 = add("block2", BasicBlock(8, 16, 2));
  AdaptiveAvgPool2d& pool = add("pool", AdaptiveAvgPool2d());
  Linear& fc = add("fc", Linear(ImageSize{16, 1, 1}, 10));
};

}  // namespace

std::vector<std::string> lab_model_names() {
  std::vector<std::string> names{"small_cnn", "small_resnet"};
  for (const std::string& name : model_names()) names.push_back(name);
  return names;
}

std::unique_ptr<Module> make_lab_model(std::string_view name) {
  if (name == "small_cnn") return std::make_unique<SmallCnn>();
  if (name == "small_resnet") return std::make_unique<SmallResNet>();
  return make_model(name);
}

Shape batch_shape(std::string_view model_name, int64_t n) {
  const int64_t side = model_name.starts_with("small_") ? 8 : 32;
  return {n, 3, side, side};
}

}  // namespace heddle::lab
