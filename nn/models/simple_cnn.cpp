#include "heddle/nn/models/simple_cnn.h"

namespace heddle {

SimpleCnn::SimpleCnn(int64_t classes)
    : conv1(add("conv1", Conv2d(3, 32, 3, {.padding = 1, .fuse_relu = true}))),
      conv2(add("conv2", Conv2d(32, 64, 3, {.padding = 1, .fuse_relu = true}))),
      fc1(add("fc1", Linear(ImageSize{64, 32, 32}, 128, {.fuse_relu = true}))),
      fc2(add("fc2", Linear(128, classes))) {}

}  // namespace heddle
