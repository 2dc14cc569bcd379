// y (N, H', W', O) = conv(x (N, H, W, C), w (O, kH, kW, C/groups)) + b, its gradients dx, dw and
// db. Method: implicit GEMM on the main loops of kernels/matmul.cu (kernels/device/conv2d.cuh); for
// up to 3 input channels a direct kernel (conv2d_direct.cuh). Bias and ReLU are added as sums are
// stored. The data gradient runs once for each phase of the stride, the weight gradient in parts of
// its depth, all pixels, added in a fixed order.
// Sums in float32, also for 16-bit tensors. Deterministic: no atomics, cuts depend on sizes alone.
// Sources: Chetlur et al. 2014, cuDNN (arXiv 1410.0759), section 3; CUTLASS,
// implicit_gemm_convolution.
#include "heddle/kernels/conv2d.h"

#include "heddle/kernels/device/conv2d.cuh"
#include "heddle/kernels/device/dispatch.cuh"

namespace heddle::cuda {

void conv2d_forward(const Conv2dForwardArgs& args, StreamRef stream) {
  check_conv2d_sizes("conv2d_forward", args.geometry);
  dispatch_device_float("conv2d_forward", args.geometry.dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, float>) {
      conv2d_forward_of_type<float>(args, stream);
    } else {
      conv2d_forward_16bit(args, stream);
    }
  });
}

void conv2d_backward_data(const Conv2dBackwardDataArgs& args, StreamRef stream) {
  check_conv2d_sizes("conv2d_backward_data", args.geometry);
  dispatch_device_float("conv2d_backward_data", args.geometry.dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, float>) {
      conv2d_backward_data_of_type<float>(args, stream);
    } else {
      conv2d_backward_data_16bit(args, stream);
    }
  });
}

void conv2d_backward_weight(const Conv2dBackwardWeightArgs& args, StreamRef stream) {
  check_conv2d_sizes("conv2d_backward_weight", args.geometry);
  dispatch_device_float("conv2d_backward_weight", args.geometry.dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, float>) {
      conv2d_backward_weight_of_type<float>(args, stream);
    } else {
      conv2d_backward_weight_16bit(args, stream);
    }
  });
}

}  // namespace heddle::cuda
