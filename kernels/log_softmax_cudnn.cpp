// The log of softmax by cuDNN: (rows, cols) as `rows` images of `cols` channels of one pixel.
// Computed in float32. These calls are not part of the graph API, and not deprecated.
#include <limits>

#include "heddle/kernels/log_softmax.h"
#include "heddle/kernels/vendor/cudnn.h"

namespace heddle::cudnn {
namespace {

/// Describes (rows, cols), while it lives.
class Rows {
 public:
  Rows(DType dtype, int64_t rows, int64_t cols) {
    HEDDLE_CUDA_CHECK(cudnnCreateTensorDescriptor(&descriptor_));
    const cudnnStatus_t status =
        cudnnSetTensor4dDescriptor(descriptor_, CUDNN_TENSOR_NHWC, data_type(dtype),
                                   static_cast<int>(rows), static_cast<int>(cols), 1, 1);
    if (status == CUDNN_STATUS_SUCCESS) return;
    static_cast<void>(cudnnDestroyTensorDescriptor(descriptor_));
    HEDDLE_CUDA_CHECK(status);
  }
  ~Rows() { static_cast<void>(cudnnDestroyTensorDescriptor(descriptor_)); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  cudnnTensorDescriptor_t get() const { return descriptor_; }

 private:
  cudnnTensorDescriptor_t descriptor_ = nullptr;
};

constexpr float kOne = 1.0F;
constexpr float kZero = 0.0F;

bool fits(DType dtype, int64_t rows, int64_t cols) {
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  return takes(dtype) && rows >= 1 && cols >= 1 && cols <= kMax && rows <= kMax / cols;
}

}  // namespace

bool log_softmax_forward_supports(const LogSoftmaxArgs& args, StreamRef) {
  return fits(args.dtype, args.rows, args.cols);
}
bool log_softmax_backward_supports(const LogSoftmaxBackwardArgs& args, StreamRef) {
  return fits(args.dtype, args.rows, args.cols);
}

void log_softmax_forward(const LogSoftmaxArgs& args, StreamRef stream) {
  const Rows rows(args.dtype, args.rows, args.cols);
  const Lease handle(stream);
  HEDDLE_CUDA_CHECK(cudnnSetStream(handle.get(), stream.get()));
  HEDDLE_CUDA_CHECK(cudnnSoftmaxForward(handle.get(), CUDNN_SOFTMAX_LOG,
                                        CUDNN_SOFTMAX_MODE_INSTANCE, &kOne, rows.get(), args.x,
                                        &kZero, rows.get(), args.y));
}

void log_softmax_backward(const LogSoftmaxBackwardArgs& args, StreamRef stream) {
  const Rows rows(args.dtype, args.rows, args.cols);
  const Lease handle(stream);
  HEDDLE_CUDA_CHECK(cudnnSetStream(handle.get(), stream.get()));
  HEDDLE_CUDA_CHECK(cudnnSoftmaxBackward(handle.get(), CUDNN_SOFTMAX_LOG,
                                         CUDNN_SOFTMAX_MODE_INSTANCE, &kOne, rows.get(), args.y,
                                         rows.get(), args.dy, &kZero, rows.get(), args.dx));
}

}  // namespace heddle::cudnn
