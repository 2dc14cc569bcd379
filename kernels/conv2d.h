#pragma once

#include <string>

#include "heddle/core/stream.h"
#include "heddle/core/view.h"

namespace heddle {

/// Sizes of a convolution. Images are dense channels-last (N, H, W, C), weights (O, kH, kW,
/// C/groups).
struct Conv2dGeometry {
  DType dtype = DType::kFloat32;
  int64_t batch = 0, in_h = 0, in_w = 0, in_channels = 0;
  int64_t out_h = 0, out_w = 0, out_channels = 0;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;

  std::string key() const;  ///< Names the sizes: for provider choices and messages.
};

/// y = conv(x, w) + bias, then max(0, y) where `relu`.
struct Conv2dForwardArgs {
  Conv2dGeometry geometry;
  void* y;           // (N, H', W', O)
  const void* x;     // (N, H, W, C)
  const void* w;     // (O, kH, kW, C/groups)
  const void* bias;  // (O), may be null
  bool relu = false;

  std::string key() const;
};

/// dx = the gradient of x.
struct Conv2dBackwardDataArgs {
  Conv2dGeometry geometry;
  void* dx;
  const void* dy;
  const void* w;

  std::string key() const;
};

/// dw = the gradient of w, and db = the sum of dy over N, H', W'.
struct Conv2dBackwardWeightArgs {
  Conv2dGeometry geometry;
  void* dw;
  void* db;  // may be null
  const void* x;
  const void* dy;

  std::string key() const;
};

namespace cpu {
void conv2d_forward(const Conv2dForwardArgs& args);
void conv2d_backward_data(const Conv2dBackwardDataArgs& args);
void conv2d_backward_weight(const Conv2dBackwardWeightArgs& args);
}  // namespace cpu

namespace cuda {
void conv2d_forward(const Conv2dForwardArgs& args, StreamRef stream);
void conv2d_backward_data(const Conv2dBackwardDataArgs& args, StreamRef stream);
void conv2d_backward_weight(const Conv2dBackwardWeightArgs& args, StreamRef stream);
}  // namespace cuda

namespace onednn {
void conv2d_forward(const Conv2dForwardArgs& args);
void conv2d_backward_data(const Conv2dBackwardDataArgs& args);
void conv2d_backward_weight(const Conv2dBackwardWeightArgs& args);
bool conv2d_forward_supports(const Conv2dForwardArgs& args);
bool conv2d_backward_data_supports(const Conv2dBackwardDataArgs& args);
bool conv2d_backward_weight_supports(const Conv2dBackwardWeightArgs& args);
}  // namespace onednn

namespace cudnn {
void conv2d_forward(const Conv2dForwardArgs& args, StreamRef stream);
void conv2d_backward_data(const Conv2dBackwardDataArgs& args, StreamRef stream);
void conv2d_backward_weight(const Conv2dBackwardWeightArgs& args, StreamRef stream);
bool conv2d_forward_supports(const Conv2dForwardArgs& args, StreamRef stream);
bool conv2d_backward_data_supports(const Conv2dBackwardDataArgs& args, StreamRef stream);
bool conv2d_backward_weight_supports(const Conv2dBackwardWeightArgs& args, StreamRef stream);
}  // namespace cudnn

}  // namespace heddle
