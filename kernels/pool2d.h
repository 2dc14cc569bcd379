#pragma once

#include <string>

#include "heddle/core/dtype.h"
#include "heddle/core/stream.h"

namespace heddle {

/// Sizes of a pooling. Images are dense channels-last: x (N, H, W, C), y (N, H', W', C).
struct Pool2dGeometry {
  DType dtype = DType::kFloat32;
  int64_t batch = 0, in_h = 0, in_w = 0, channels = 0;
  int64_t out_h = 0, out_w = 0;
  int64_t kernel_h = 2, kernel_w = 2;
  int64_t stride_h = 2, stride_w = 2;
  int64_t pad_h = 0, pad_w = 0;  // at most half of the kernel: every window holds an element

  std::string key() const;  ///< Names the sizes: for provider choices and messages.
};

/// y = the window's maximum; NaN wins. places[i] = kernel_w * row + column of it inside the window:
/// the first of equals, the last NaN.
struct MaxPool2dForwardArgs {
  Pool2dGeometry geometry;
  void* y;
  const void* x;
  void* places;       // (N, H', W', C) of place_dtype; may be null
  DType place_dtype;  // uint8 for kernels of at most 256 elements, else int64

  std::string key() const;
};

/// dx = the sum of dy over the windows whose maximum the element is.
struct MaxPool2dBackwardArgs {
  Pool2dGeometry geometry;
  void* dx;
  const void* dy;
  const void* places;
  DType place_dtype;

  std::string key() const;
};

/// y = the window's sum over its element count, with the padding counted where asked.
struct AvgPool2dForwardArgs {
  Pool2dGeometry geometry;
  void* y;
  const void* x;
  bool count_include_pad;

  std::string key() const;
};

/// dx = the sum of dy / element count over the windows that hold the element.
struct AvgPool2dBackwardArgs {
  Pool2dGeometry geometry;
  void* dx;
  const void* dy;
  bool count_include_pad;

  std::string key() const;
};

/// y (batch, channels) = mean over `pixels` of x (batch, pixels, channels).
struct GlobalAvgPoolForwardArgs {
  DType dtype;
  int64_t batch, pixels, channels;
  void* y;
  const void* x;
};

/// dx = dy / pixels.
struct GlobalAvgPoolBackwardArgs {
  DType dtype;
  int64_t batch, pixels, channels;
  void* dx;
  const void* dy;
};

namespace cpu {
void max_pool2d_forward(const MaxPool2dForwardArgs& args);
void max_pool2d_backward(const MaxPool2dBackwardArgs& args);
void avg_pool2d_forward(const AvgPool2dForwardArgs& args);
void avg_pool2d_backward(const AvgPool2dBackwardArgs& args);
void global_avg_pool_forward(const GlobalAvgPoolForwardArgs& args);
void global_avg_pool_backward(const GlobalAvgPoolBackwardArgs& args);
}  // namespace cpu

namespace cuda {
void max_pool2d_forward(const MaxPool2dForwardArgs& args, StreamRef stream);
void max_pool2d_backward(const MaxPool2dBackwardArgs& args, StreamRef stream);
void avg_pool2d_forward(const AvgPool2dForwardArgs& args, StreamRef stream);
void avg_pool2d_backward(const AvgPool2dBackwardArgs& args, StreamRef stream);
void global_avg_pool_forward(const GlobalAvgPoolForwardArgs& args, StreamRef stream);
void global_avg_pool_backward(const GlobalAvgPoolBackwardArgs& args, StreamRef stream);
}  // namespace cuda

/// oneDNN's versions, where their *_supports says that it can.
namespace onednn {
bool max_pool2d_backward_supports(const MaxPool2dBackwardArgs& args);
bool avg_pool2d_forward_supports(const AvgPool2dForwardArgs& args);
bool avg_pool2d_backward_supports(const AvgPool2dBackwardArgs& args);
void max_pool2d_backward(const MaxPool2dBackwardArgs& args);
void avg_pool2d_forward(const AvgPool2dForwardArgs& args);
void avg_pool2d_backward(const AvgPool2dBackwardArgs& args);
}  // namespace onednn

/// cuDNN's.
namespace cudnn {
bool max_pool2d_forward_supports(const MaxPool2dForwardArgs& args, StreamRef stream);
bool max_pool2d_backward_supports(const MaxPool2dBackwardArgs& args, StreamRef stream);
bool avg_pool2d_forward_supports(const AvgPool2dForwardArgs& args, StreamRef stream);
bool avg_pool2d_backward_supports(const AvgPool2dBackwardArgs& args, StreamRef stream);
void max_pool2d_forward(const MaxPool2dForwardArgs& args, StreamRef stream);
void max_pool2d_backward(const MaxPool2dBackwardArgs& args, StreamRef stream);
void avg_pool2d_forward(const AvgPool2dForwardArgs& args, StreamRef stream);
void avg_pool2d_backward(const AvgPool2dBackwardArgs& args, StreamRef stream);
}  // namespace cudnn

}  // namespace heddle
