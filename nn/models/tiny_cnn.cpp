#include "heddle/nn/models/tiny_cnn.h"

namespace heddle {

TinyCnn::TinyCnn(int64_t classes)
    : conv1(add("conv1", Conv2d(3, 8, 3, {.stride = 2, .padding = 1, .bias = false}))),
      bn1(add("bn1", BatchNorm2d(8, {.fuse_relu = true}))),
      conv2(add("conv2", Conv2d(8, 16, 3, {.stride = 2, .padding = 1, .fuse_relu = true}))),
      dropout(add("dropout", Dropout(0.1))),
      pool(add("pool", AdaptiveAvgPool2d())),
      fc(add("fc", Linear(ImageSize{16, 1, 1}, classes))) {}

}  // namespace heddle
