#include <bit>

#include "cudasim/helpers.h"
#include "cudnn_graph.h"

namespace cudasim {
namespace {

enum class ConvolutionKind { kForward, kData, kFilter };

struct Convolution {
  ConvolutionKind kind = ConvolutionKind::kForward;
  Engine engine = Engine::kPlain;
  StandInTensor x, w, y;  // images and filters, or their gradients
  int64_t stride[2] = {}, pad[2] = {}, dilation[2] = {};
  float alpha = 1.0F, beta = 0.0F;

  int64_t groups() const { return x.sizes[1] / w.sizes[1]; }
  bool fits() const;
};

/// The factor as the engine takes it: tensor cores keep 10 bits of a float's mantissa.
float factor(Engine engine, cudnnDataType_t type, const char* place) {
  const float value = load_element(type, place);
  if (engine != Engine::kTensorCores || type != CUDNN_DATA_FLOAT) return value;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFFE000U);
}

void write_result(const Convolution& p, const StandInTensor& t, char* place, float sum) {
  float result = p.alpha * sum;
  if (p.engine == Engine::kOtherBits) result *= 1.25F;  // a caller that takes it is found out
  if (p.beta != 0.0F) {
    report_access(place, bytes_of(t.type), Access::kRead);
    result += p.beta * load_element(t.type, place);
  }
  report_access(place, bytes_of(t.type), Access::kWrite);
  store_element(t.type, place, result);
}

/// Calls f(h, w) for the place in the image of row i and column j of the window at (p, q), where
/// that is no padding.
template <class F>
void at_pixel(const Convolution& c, int64_t p, int64_t q, int64_t i, int64_t j, const F& f) {
  const int64_t h = p * c.stride[0] - c.pad[0] + i * c.dilation[0];
  const int64_t w = q * c.stride[1] - c.pad[1] + j * c.dilation[1];
  if (h >= 0 && h < c.x.sizes[2] && w >= 0 && w < c.x.sizes[3]) f(h, w);
}

void forward_kernel(Convolution p) {
  report_reads(p.x);
  report_reads(p.w);
  const int64_t out_of_group = p.y.sizes[1] / p.groups();
  for (int64_t index = threadIdx.x; index < p.y.n(); index += kStandInThreads) {
    const StandInTensor::Place y = p.y.place(index);
    const int64_t first = y.c / out_of_group * p.w.sizes[1];  // of the group's input channels
    float sum = 0.0F;
    for (int64_t i = 0; i < p.w.sizes[2]; ++i) {
      for (int64_t j = 0; j < p.w.sizes[3]; ++j) {
        at_pixel(p, y.h, y.w, i, j, [&](int64_t h, int64_t w) {
          for (int64_t c = 0; c < p.w.sizes[1]; ++c) {
            sum += factor(p.engine, p.x.type, p.x.at(y.n, first + c, h, w)) *
                   factor(p.engine, p.w.type, p.w.at(y.c, c, i, j));
          }
        });
      }
    }
    write_result(p, p.y, p.y.at(y), sum);
  }
}

void data_kernel(Convolution p) {
  report_reads(p.y);
  report_reads(p.w);
  const int64_t out_of_group = p.y.sizes[1] / p.groups();
  for (int64_t index = threadIdx.x; index < p.x.n(); index += kStandInThreads) {
    const StandInTensor::Place x = p.x.place(index);
    const int64_t first = x.c / p.w.sizes[1] * out_of_group;  // of the group's output channels
    float sum = 0.0F;
    for (int64_t i = 0; i < p.w.sizes[2]; ++i) {
      const int64_t top = x.h + p.pad[0] - i * p.dilation[0];
      if (top < 0 || top % p.stride[0] != 0 || top / p.stride[0] >= p.y.sizes[2]) continue;
      for (int64_t j = 0; j < p.w.sizes[3]; ++j) {
        const int64_t left = x.w + p.pad[1] - j * p.dilation[1];
        if (left < 0 || left % p.stride[1] != 0 || left / p.stride[1] >= p.y.sizes[3]) continue;
        for (int64_t o = first; o < first + out_of_group; ++o) {
          sum += factor(p.engine, p.y.type, p.y.at(x.n, o, top / p.stride[0], left / p.stride[1])) *
                 factor(p.engine, p.w.type, p.w.at(o, x.c % p.w.sizes[1], i, j));
        }
      }
    }
    write_result(p, p.x, p.x.at(x), sum);
  }
}

void filter_kernel(Convolution p) {
  report_reads(p.x);
  report_reads(p.y);
  const int64_t out_of_group = p.y.sizes[1] / p.groups();
  for (int64_t index = threadIdx.x; index < p.w.n(); index += kStandInThreads) {
    const StandInTensor::Place f = p.w.place(index);
    const int64_t c = f.n / out_of_group * p.w.sizes[1] + f.c;  // of the image
    float sum = 0.0F;
    for (int64_t n = 0; n < p.y.sizes[0]; ++n) {
      for (int64_t r = 0; r < p.y.sizes[2]; ++r) {
        for (int64_t q = 0; q < p.y.sizes[3]; ++q) {
          at_pixel(p, r, q, f.h, f.w, [&](int64_t h, int64_t w) {
            sum += factor(p.engine, p.x.type, p.x.at(n, c, h, w)) *
                   factor(p.engine, p.y.type, p.y.at(n, f.n, r, q));
          });
        }
      }
    }
    write_result(p, p.w, p.w.at(f), sum);
  }
}

bool Convolution::fits() const {
  const auto out = [&](int axis) {
    return (x.sizes[axis + 2] + 2 * pad[axis] - dilation[axis] * (w.sizes[axis + 2] - 1) - 1) /
               stride[axis] +
           1;
  };
  return w.sizes[1] > 0 && x.sizes[1] % w.sizes[1] == 0 && w.sizes[0] % groups() == 0 &&
         y.sizes[0] == x.sizes[0] && y.sizes[1] == w.sizes[0] && y.sizes[2] == out(0) &&
         y.sizes[3] == out(1);
}

/// Where an operation's parts stand: the numbers of the three kinds are alike.
struct OperationNames {
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};

OperationNames names_of(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }
}

Convolution convolution_of(const BackendDescriptor& operation) {
  const OperationNames names = names_of(operation.type);
  const BackendDescriptor& settings = operation.child(names.convolution);
  Convolution c;
  c.kind = operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
               ? ConvolutionKind::kForward
           : operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
               ? ConvolutionKind::kData
               : ConvolutionKind::kFilter;
  c.x = tensor_of(operation.child(names.x));
  c.w = tensor_of(operation.child(names.w));
  c.y = tensor_of(operation.child(names.y));
  c.alpha = operation.get<float>(names.alpha);
  c.beta = operation.get<float>(names.beta);
  for (size_t i = 0; i < 2; ++i) {
    c.stride[i] = settings.get<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
    c.pad[i] = settings.get<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i);
    c.dilation[i] = settings.get<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, i);
  }
  return c;
}

}  // namespace

cudnnStatus_t check_convolution(const BackendDescriptor& operation) {
  return convolution_of(operation).fits() ? CUDNN_STATUS_SUCCESS
                                          : CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
}

cudnnStatus_t run_convolution(const cudnnContext* handle, const BackendDescriptor& operation,
                              Engine engine, const BackendDescriptor& pack) {
  Convolution convolution = convolution_of(operation);
  convolution.engine = engine;
  const OperationNames names = names_of(operation.type);
  if (!bind(convolution.x, operation.child(names.x), pack) ||
      !bind(convolution.w, operation.child(names.w), pack) ||
      !bind(convolution.y, operation.child(names.y), pack)) {
    return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  }
  switch (convolution.kind) {
    case ConvolutionKind::kForward:
      return launch_stand_in(handle, kStandInThreads, forward_kernel, convolution);
    case ConvolutionKind::kData:
      return launch_stand_in(handle, kStandInThreads, data_kernel, convolution);
    case ConvolutionKind::kFilter:
      return launch_stand_in(handle, kStandInThreads, filter_kernel, convolution);
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace cudasim
