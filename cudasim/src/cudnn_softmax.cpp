#include <cmath>

#include "cudasim/helpers.h"
#include "cudnn_graph.h"

struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int64_t rows = 0, cols = 0;  // the elements of an instance side by side

  bool operator==(const cudnnTensorStruct&) const = default;
};

namespace cudasim {
namespace {

constexpr unsigned kThreads = 32;  // each takes every 32nd row

struct Softmax {
  cudnnTensorStruct rows;
  const char* x;   // backward: y
  const char* dy;  // null: forward
  char* result;
};

float read(const Softmax& p, const char* array, int64_t index) {
  const char* place = array + static_cast<size_t>(index) * bytes_of(p.rows.type);
  report_access(place, bytes_of(p.rows.type), Access::kRead);
  return load_element(p.rows.type, place);
}

void write(const Softmax& p, int64_t index, float value) {
  char* place = p.result + static_cast<size_t>(index) * bytes_of(p.rows.type);
  report_access(place, bytes_of(p.rows.type), Access::kWrite);
  store_element(p.rows.type, place, value);
}

void forward_row(const Softmax& p, int64_t first) {
  float max = -INFINITY;
  float sum = 0.0F;
  for (int64_t i = 0; i < p.rows.cols; ++i) max = std::fmax(max, read(p, p.x, first + i));
  for (int64_t i = 0; i < p.rows.cols; ++i) sum += std::exp(read(p, p.x, first + i) - max);
  for (int64_t i = 0; i < p.rows.cols; ++i) {
    write(p, first + i, read(p, p.x, first + i) - max - std::log(sum));
  }
}

void backward_row(const Softmax& p, int64_t first) {
  float sum = 0.0F;
  for (int64_t i = 0; i < p.rows.cols; ++i) sum += read(p, p.dy, first + i);
  for (int64_t i = 0; i < p.rows.cols; ++i) {
    write(p, first + i, read(p, p.dy, first + i) - std::exp(read(p, p.x, first + i)) * sum);
  }
}

void softmax_kernel(Softmax p) {
  for (int64_t row = threadIdx.x; row < p.rows.rows; row += kThreads) {
    if (p.dy == nullptr) {
      forward_row(p, row * p.rows.cols);
    } else {
      backward_row(p, row * p.rows.cols);
    }
  }
}

cudnnStatus_t run_softmax(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                          cudnnSoftmaxMode_t mode, const void* alpha, const void* beta,
                          const Softmax& p) {
  if (handle == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  if (algorithm != CUDNN_SOFTMAX_LOG || mode != CUDNN_SOFTMAX_MODE_INSTANCE ||
      *static_cast<const float*>(alpha) != 1.0F || *static_cast<const float*>(beta) != 0.0F) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  return launch_stand_in(handle, kThreads, softmax_kernel, p);
}

}  // namespace
}  // namespace cudasim

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *descriptor = new cudnnTensorStruct;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (n < 1 || c < 1 || h < 1 || w < 1) return CUDNN_STATUS_BAD_PARAM;
  *descriptor = {type, n, int64_t{c} * h * w};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                  cudnnSoftmaxMode_t mode, const void* alpha,
                                  cudnnTensorDescriptor_t x_descriptor, const void* x,
                                  const void* beta, cudnnTensorDescriptor_t y_descriptor, void* y) {
  if (*x_descriptor != *y_descriptor) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  return cudasim::run_softmax(
      handle, algorithm, mode, alpha, beta,
      {*x_descriptor, static_cast<const char*>(x), nullptr, static_cast<char*>(y)});
}

cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                   cudnnSoftmaxMode_t mode, const void* alpha,
                                   cudnnTensorDescriptor_t y_descriptor, const void* y,
                                   cudnnTensorDescriptor_t dy_descriptor, const void* dy,
                                   const void* beta, cudnnTensorDescriptor_t dx_descriptor,
                                   void* dx) {
  if (*y_descriptor != *dy_descriptor || *y_descriptor != *dx_descriptor) {
    return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  }
  return cudasim::run_softmax(handle, algorithm, mode, alpha, beta,
                              {*y_descriptor, static_cast<const char*>(y),
                               static_cast<const char*>(dy), static_cast<char*>(dx)});
}
