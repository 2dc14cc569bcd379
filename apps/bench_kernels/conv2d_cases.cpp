#include <fmt/format.h>

#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/bench_kernels/sides.h"
#include "heddle/kernels/dispatch.h"

namespace heddle::bench {
namespace {

struct Layer {
  const char* name;
  int64_t in, out, size, kernel, stride;
  bool bias_and_relu;
};

// Of ResNet-18's layers, each shape once.
constexpr Layer kLayers[] = {
    {"simple_cnn.conv1", 3, 32, 32, 3, 1, true},
    {"simple_cnn.conv2", 32, 64, 32, 3, 1, true},
    {"resnet18.conv1", 3, 64, 32, 3, 1, false},
    {"resnet18.layer1", 64, 64, 32, 3, 1, false},
    {"resnet18.layer2.0.conv1", 64, 128, 32, 3, 2, false},
    {"resnet18.layer2.0.downsample", 64, 128, 32, 1, 2, false},
    {"resnet18.layer2", 128, 128, 16, 3, 1, false},
    {"resnet18.layer3.0.conv1", 128, 256, 16, 3, 2, false},
    {"resnet18.layer3.0.downsample", 128, 256, 16, 1, 2, false},
    {"resnet18.layer3", 256, 256, 8, 3, 1, false},
    {"resnet18.layer4.0.conv1", 256, 512, 8, 3, 2, false},
    {"resnet18.layer4.0.downsample", 256, 512, 8, 1, 2, false},
    {"resnet18.layer4", 512, 512, 4, 3, 1, false},
};
ConvWork work_of(const Layer& layer, DType dtype, int64_t batch) {
  Conv2dGeometry g;
  g.dtype = dtype;
  g.batch = batch;
  g.in_channels = layer.in;
  g.in_h = g.in_w = layer.size;
  g.out_channels = layer.out;
  g.kernel_h = g.kernel_w = layer.kernel;
  g.stride_h = g.stride_w = layer.stride;
  g.pad_h = g.pad_w = layer.kernel / 2;
  g.out_h = g.out_w = (layer.size + 2 * g.pad_h - layer.kernel) / layer.stride + 1;
  return {g, layer.bias_and_relu, layer.bias_and_relu};
}

Prepared prepare(const ConvWork& work, Direction direction, const Setting& setting) {
  Conv2dGeometry g = work.geometry;
  const DType dtype = g.dtype;
  g.dtype = setting.dtype_of(dtype);
  const Tensor x = random_input(g.batch * g.in_h * g.in_w * g.in_channels, dtype, setting);
  const Tensor w =
      random_input(g.out_channels * g.kernel_h * g.kernel_w * g.in_channels, dtype, setting);
  const Tensor y = random_input(g.batch * g.out_h * g.out_w * g.out_channels, dtype, setting);
  const Tensor bias = random_input(g.out_channels, dtype, setting);
  Prepared prepared;
  void* const px = prepared.hold(x);
  void* const pw = prepared.hold(w);
  void* const py = prepared.hold(y);
  void* const pbias = work.bias ? prepared.hold(bias) : nullptr;
  if (direction == Direction::kForward) {
    const Conv2dForwardArgs args{g, py, px, pw, pbias, work.relu};
    HEDDLE_ADD_ALL_SIDES(prepared, setting, conv2d_forward, args, cudnn);
    prepared.result = y;
  } else if (direction == Direction::kData) {
    const Conv2dBackwardDataArgs args{g, px, py, pw};
    HEDDLE_ADD_ALL_SIDES(prepared, setting, conv2d_backward_data, args, cudnn);
    prepared.result = x;
  } else {
    const Conv2dBackwardWeightArgs args{g, pw, pbias, px, py};
    HEDDLE_ADD_ALL_SIDES(prepared, setting, conv2d_backward_weight, args, cudnn);
    prepared.result = w;
  }
  if (setting.beside_onednn()) add_raw_sides(work, direction, prepared.sides);
  return prepared;
}

Case case_of(const Layer& layer, Direction direction, DType dtype, int64_t batch) {
  const ConvWork work = work_of(layer, dtype, batch);
  const Conv2dGeometry& g = work.geometry;
  const int64_t x = g.batch * g.in_h * g.in_w * g.in_channels;
  const int64_t y = g.batch * g.out_h * g.out_w * g.out_channels;
  const int64_t taps = g.kernel_h * g.kernel_w * g.in_channels;
  Case result;
  result.name = fmt::format("conv2d/{}/{}/{}", name_of(direction), layer.name, dtype);
  result.dtype = dtype;
  result.flops = 2.0 * static_cast<double>(y * taps);
  result.bytes = static_cast<double>((x + y + g.out_channels * taps) * size_of(dtype));
  result.prepare = [work, direction](const Setting& s) { return prepare(work, direction, s); };
  return result;
}

}  // namespace

std::string_view name_of(Direction direction) {
  switch (direction) {
    case Direction::kForward:
      return "forward";
    case Direction::kData:
      return "data";
    case Direction::kWeight:
      return "weight";
  }
  return "unknown";
}

std::vector<Case> conv2d_cases(const Scale& scale) {
  std::vector<Case> cases;
  for (const DType dtype : scale.dtypes)
    for (const Layer& layer : kLayers)
      for (const Direction direction : {Direction::kForward, Direction::kData, Direction::kWeight})
        if (direction != Direction::kData || layer.in != 3)  // images need no gradient
          cases.push_back(case_of(layer, direction, dtype, scale.batch));
  return cases;
}

}  // namespace heddle::bench
