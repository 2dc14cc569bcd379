// Batch-norm in training, as the graph API's normalisation operations have it.
#include <cmath>

#include "cudasim/helpers.h"
#include "cudnn_graph.h"

namespace cudasim {
namespace {

struct Norm {
  bool forward = true;
  Engine engine = Engine::kPlain;
  float eps = 0.0F;
  StandInTensor x, y, dx;                     // images; backward: y is its gradient
  StandInTensor mean, inv_std, weight, bias;  // of the channels
  StandInTensor dw, db;

  int64_t rows() const { return x.sizes[0] * x.sizes[2] * x.sizes[3]; }
  StandInTensor::Place place(int64_t row, int64_t channel) const {
    const int64_t pixels = x.sizes[2] * x.sizes[3];
    return {row / pixels, channel, row % pixels / x.sizes[3], row % x.sizes[3]};
  }
};

float of_channel(const StandInTensor& t, int64_t channel) {
  return read_element(t, t.at(0, channel, 0, 0));
}

void write_channel(const StandInTensor& t, int64_t channel, double value) {
  write_element(t, t.at(0, channel, 0, 0), static_cast<float>(value));
}

void write_result(const Norm& p, const StandInTensor& t, const StandInTensor::Place& at,
                  double value) {
  // A caller that takes an engine of other bits is found out.
  const double factor = p.engine == Engine::kOtherBits ? 1.25 : 1.0;
  write_element(t, t.at(at), static_cast<float>(factor * value));
}

double load(const StandInTensor& t, const StandInTensor::Place& at) {
  return static_cast<double>(load_element(t.type, t.at(at)));
}

void forward_kernel(Norm p) {
  report_reads(p.x);
  const auto rows = static_cast<double>(p.rows());
  for (int64_t c = threadIdx.x; c < p.x.sizes[1]; c += kStandInThreads) {
    double mean = 0.0, var = 0.0;
    for (int64_t r = 0; r < p.rows(); ++r) mean += load(p.x, p.place(r, c)) / rows;
    for (int64_t r = 0; r < p.rows(); ++r) {
      const double centred = load(p.x, p.place(r, c)) - mean;
      var += centred * centred / rows;
    }
    const double inv_std = 1.0 / std::sqrt(var + static_cast<double>(p.eps));
    write_channel(p.mean, c, mean);
    write_channel(p.inv_std, c, inv_std);
    const double weight = of_channel(p.weight, c), bias = of_channel(p.bias, c);
    for (int64_t r = 0; r < p.rows(); ++r) {
      const StandInTensor::Place at = p.place(r, c);
      write_result(p, p.y, at, (load(p.x, at) - mean) * inv_std * weight + bias);
    }
  }
}

void backward_kernel(Norm p) {
  report_reads(p.x);
  report_reads(p.y);
  const auto rows = static_cast<double>(p.rows());
  for (int64_t c = threadIdx.x; c < p.x.sizes[1]; c += kStandInThreads) {
    const double mean = of_channel(p.mean, c), inv_std = of_channel(p.inv_std, c);
    double dw = 0.0, db = 0.0;
    for (int64_t r = 0; r < p.rows(); ++r) {
      const StandInTensor::Place at = p.place(r, c);
      dw += load(p.y, at) * (load(p.x, at) - mean) * inv_std;
      db += load(p.y, at);
    }
    write_channel(p.dw, c, dw);
    write_channel(p.db, c, db);
    const double weight = of_channel(p.weight, c);
    for (int64_t r = 0; r < p.rows(); ++r) {
      const StandInTensor::Place at = p.place(r, c);
      const double normalised = (load(p.x, at) - mean) * inv_std;
      write_result(p, p.dx, at, weight * inv_std * (load(p.y, at) - (db + normalised * dw) / rows));
    }
  }
}

/// A tensor of the operation, and what the operation calls it.
struct Part {
  StandInTensor Norm::*tensor;
  cudnnBackendAttributeName_t name;
};

constexpr Part kForwardParts[] = {
    {&Norm::x, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC},
    {&Norm::y, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC},
    {&Norm::mean, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC},
    {&Norm::inv_std, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC},
    {&Norm::weight, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC},
    {&Norm::bias, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC},
};
constexpr Part kBackwardParts[] = {
    {&Norm::x, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC},
    {&Norm::y, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC},
    {&Norm::dx, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC},
    {&Norm::mean, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC},
    {&Norm::inv_std, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC},
    {&Norm::weight, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC},
    {&Norm::dw, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC},
    {&Norm::db, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC},
};

bool is_forward(const BackendDescriptor& operation) {
  return operation.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR;
}

std::vector<Part> parts_of(const BackendDescriptor& operation) {
  if (is_forward(operation)) return {std::begin(kForwardParts), std::end(kForwardParts)};
  return {std::begin(kBackwardParts), std::end(kBackwardParts)};
}

/// Images are like x; everything else is one float for each channel.
bool fits(const Norm& p, const Part& part) {
  const StandInTensor& t = p.*part.tensor;
  const bool is_image =
      part.tensor == &Norm::x || part.tensor == &Norm::y || part.tensor == &Norm::dx;
  if (is_image) {
    return t.type == p.x.type && std::equal(t.sizes, t.sizes + 4, p.x.sizes) &&
           std::equal(t.strides, t.strides + 4, p.x.strides);
  }
  const int64_t sizes[] = {1, p.x.sizes[1], 1, 1};
  return t.type == CUDNN_DATA_FLOAT && std::equal(t.sizes, t.sizes + 4, sizes);
}

Norm norm_of(const BackendDescriptor& operation) {
  Norm p;
  p.forward = is_forward(operation);
  for (const Part& part : parts_of(operation)) {
    p.*part.tensor = tensor_of(operation.child(part.name));
  }
  return p;
}

}  // namespace

/// As cuDNN's engines: channels in whole vectors of 16 bytes.
cudnnStatus_t check_norm(const BackendDescriptor& operation) {
  const Norm p = norm_of(operation);
  for (const Part& part : parts_of(operation)) {
    if (!fits(p, part)) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  }
  const int64_t bytes = p.x.sizes[1] * static_cast<int64_t>(bytes_of(p.x.type));
  if (bytes % 16 != 0 || p.x.strides[1] != 1) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!p.forward) return CUDNN_STATUS_SUCCESS;
  const BackendDescriptor& eps = operation.child(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC);
  return eps.is(CUDNN_ATTR_TENSOR_IS_BY_VALUE) && tensor_of(eps).type == CUDNN_DATA_FLOAT
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t run_norm(const cudnnContext* handle, const BackendDescriptor& operation,
                       Engine engine, const BackendDescriptor& pack) {
  Norm p = norm_of(operation);
  p.engine = engine;
  for (const Part& part : parts_of(operation)) {
    if (!bind(p.*part.tensor, operation.child(part.name), pack)) {
      return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    }
  }
  if (!p.forward) return launch_stand_in(handle, kStandInThreads, backward_kernel, p);
  const BackendDescriptor& eps = operation.child(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC);
  StandInTensor on_host = tensor_of(eps);
  if (!bind(on_host, eps, pack)) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  p.eps = load_element(on_host.type, on_host.data);
  return launch_stand_in(handle, kStandInThreads, forward_kernel, p);
}

}  // namespace cudasim
