// The 16-bit half of kernels/conv2d.cu, apart so that the two compile side by side.
#include "heddle/kernels/device/conv2d.cuh"

namespace heddle::cuda {

void conv2d_forward_16bit(const Conv2dForwardArgs& args, StreamRef stream) {
  if (args.geometry.dtype == DType::kFloat16) return conv2d_forward_of_type<Float16>(args, stream);
  conv2d_forward_of_type<BFloat16>(args, stream);
}

void conv2d_backward_data_16bit(const Conv2dBackwardDataArgs& args, StreamRef stream) {
  if (args.geometry.dtype == DType::kFloat16)
    return conv2d_backward_data_of_type<Float16>(args, stream);
  conv2d_backward_data_of_type<BFloat16>(args, stream);
}

void conv2d_backward_weight_16bit(const Conv2dBackwardWeightArgs& args, StreamRef stream) {
  if (args.geometry.dtype == DType::kFloat16)
    return conv2d_backward_weight_of_type<Float16>(args, stream);
  conv2d_backward_weight_of_type<BFloat16>(args, stream);
}

}  // namespace heddle::cuda
