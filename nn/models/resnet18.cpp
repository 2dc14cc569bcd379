#include "heddle/nn/models/resnet18.h"

#include "heddle/nn/ops.h"

namespace heddle {
namespace {

Conv2d conv3x3(int64_t in, int64_t out, int64_t stride) {
  return Conv2d(in, out, 3, {.stride = stride, .padding = 1, .bias = false});
}

Sequential stage(int64_t in, int64_t out, int64_t stride) {
  return Sequential(BasicBlock(in, out, stride), BasicBlock(out, out, 1));
}

}  // namespace

BasicBlock::BasicBlock(int64_t in, int64_t out, int64_t stride)
    : conv1_(add("conv1", conv3x3(in, out, stride))),
      bn1_(add("bn1", BatchNorm2d(out, {.fuse_relu = true}))),
      conv2_(add("conv2", conv3x3(out, out, 1))),
      bn2_(add("bn2", BatchNorm2d(out))) {
  if (stride != 1 || in != out)
    downsample_ =
        &add("downsample",
             Sequential(Conv2d(in, out, 1, {.stride = stride, .bias = false}), BatchNorm2d(out)));
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor shortcut = downsample_ != nullptr ? (*downsample_)(x) : x;
  return relu(bn2_(conv2_(bn1_(conv1_(x)))) + shortcut);
}

ResNet18::ResNet18(int64_t classes)
    : conv1(add("conv1", conv3x3(3, 64, 1))),
      bn1(add("bn1", BatchNorm2d(64, {.fuse_relu = true}))),
      layer1(add("layer1", stage(64, 64, 1))),
      layer2(add("layer2", stage(64, 128, 2))),
      layer3(add("layer3", stage(128, 256, 2))),
      layer4(add("layer4", stage(256, 512, 2))),
      fc(add("fc", Linear(512, classes))) {}

Tensor ResNet18::forward(const Tensor& x) {
  const Tensor features = layer4(layer3(layer2(layer1(bn1(conv1(x))))));
  return fc(flatten(global_avg_pool2d(features), 1));
}

}  // namespace heddle
