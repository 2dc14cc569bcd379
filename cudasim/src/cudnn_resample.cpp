// Pooling, as the graph API's resample operations have it.
#include <algorithm>
#include <cmath>

#include "cudasim/helpers.h"
#include "cudnn_graph.h"

namespace cudasim {
namespace {

struct Resample {
  bool forward = true;
  cudnnResampleMode_t mode = CUDNN_RESAMPLE_MAXPOOL;
  bool nan_wins = false;
  bool has_index = false;
  Engine engine = Engine::kPlain;
  StandInTensor x, y, index;  // images, or their gradients
  int64_t window[2] = {}, stride[2] = {}, pad[2] = {};

  bool is_max() const { return mode == CUDNN_RESAMPLE_MAXPOOL; }
  bool fits() const;
};

/// The part of a window along an axis that lies in the image.
struct Taps {
  int64_t begin, end, first;  // first: where the window's tap 0 lies
};

Taps taps_of(const Resample& p, int axis, int64_t out) {
  const int64_t first = out * p.stride[axis] - p.pad[axis];
  const int64_t end = std::min(first + p.window[axis], p.x.sizes[axis + 2]);
  return {std::max<int64_t>(first, 0), end, first};
}

float divisor(const Resample& p, const Taps& rows, const Taps& cols) {
  return static_cast<float>(p.mode == CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING
                                ? p.window[0] * p.window[1]
                                : (rows.end - rows.begin) * (cols.end - cols.begin));
}

void write_result(const Resample& p, const StandInTensor& t, char* place, float value) {
  // A caller that takes an engine of other bits is found out.
  write_element(t, place, p.engine == Engine::kOtherBits ? 1.25F * value : value);
}

void forward_kernel(Resample p) {
  report_reads(p.x);
  for (int64_t i = threadIdx.x; i < p.y.n(); i += kStandInThreads) {
    const StandInTensor::Place y = p.y.place(i);
    const Taps rows = taps_of(p, 0, y.h), cols = taps_of(p, 1, y.w);
    float sum = 0.0F, best = -INFINITY;
    int64_t at = -1;
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t w = cols.begin; w < cols.end; ++w) {
        const float value = load_element(p.x.type, p.x.at(y.n, y.c, h, w));
        sum += value;
        const bool wins = value > best || (p.nan_wins && std::isnan(value));
        if (at >= 0 && !wins) continue;
        best = value;
        at = (h - rows.first) * p.window[1] + w - cols.first;
      }
    }
    write_result(p, p.y, p.y.at(y), p.is_max() ? best : sum / divisor(p, rows, cols));
    if (p.has_index) write_element(p.index, p.index.at(y), static_cast<float>(at));
  }
}

/// What window `y` sends to the element at (h, w), which it holds.
float sent(const Resample& p, const StandInTensor::Place& y, int64_t h, int64_t w) {
  const Taps rows = taps_of(p, 0, y.h), cols = taps_of(p, 1, y.w);
  const float dy = load_element(p.y.type, p.y.at(y));
  if (!p.is_max()) return dy / divisor(p, rows, cols);
  const int64_t tap = (h - rows.first) * p.window[1] + w - cols.first;
  return static_cast<float>(tap) == load_element(p.index.type, p.index.at(y)) ? dy : 0.0F;
}

void backward_kernel(Resample p) {
  report_reads(p.y);
  if (p.has_index) report_reads(p.index);
  for (int64_t i = threadIdx.x; i < p.x.n(); i += kStandInThreads) {
    const StandInTensor::Place x = p.x.place(i);
    float sum = 0.0F;
    for (int64_t h = 0; h < p.y.sizes[2]; ++h) {
      const Taps rows = taps_of(p, 0, h);
      if (x.h < rows.begin || x.h >= rows.end) continue;
      for (int64_t w = 0; w < p.y.sizes[3]; ++w) {
        const Taps cols = taps_of(p, 1, w);
        if (x.w >= cols.begin && x.w < cols.end) sum += sent(p, {x.n, x.c, h, w}, x.h, x.w);
      }
    }
    write_result(p, p.x, p.x.at(x), sum);
  }
}

bool Resample::fits() const {
  const auto out = [&](int axis) {
    return (x.sizes[axis + 2] + 2 * pad[axis] - window[axis]) / stride[axis] + 1;
  };
  return y.sizes[0] == x.sizes[0] && y.sizes[1] == x.sizes[1] && y.sizes[2] == out(0) &&
         y.sizes[3] == out(1);
}

/// Where an operation's parts stand.
struct ResampleNames {
  cudnnBackendAttributeName_t x, y, index, settings;
};

ResampleNames names_of(const BackendDescriptor& operation) {
  if (operation.type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR) {
    return {CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC,
            CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC};
  }
  return {CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC,
          CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC};
}

Resample resample_of(const BackendDescriptor& operation) {
  const ResampleNames names = names_of(operation);
  const BackendDescriptor& settings = operation.child(names.settings);
  Resample r;
  r.forward = operation.type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR;
  r.mode = settings.get<cudnnResampleMode_t>(CUDNN_ATTR_RESAMPLE_MODE);
  r.nan_wins = settings.get<cudnnNanPropagation_t>(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION) ==
               CUDNN_PROPAGATE_NAN;
  r.x = tensor_of(operation.child(names.x));
  r.y = tensor_of(operation.child(names.y));
  r.has_index = operation.has(names.index);
  if (r.has_index) r.index = tensor_of(operation.child(names.index));
  for (size_t i = 0; i < 2; ++i) {
    r.window[i] = settings.get<int64_t>(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, i);
    r.stride[i] = settings.get<int64_t>(CUDNN_ATTR_RESAMPLE_STRIDES, i);
    r.pad[i] = settings.get<int64_t>(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, i);
  }
  return r;
}

/// The index: a signed byte for each element of y, for the maximum alone, which needs it backward.
bool index_fits(const Resample& r) {
  if (!r.has_index) return r.forward || !r.is_max();
  return r.is_max() && r.index.type == CUDNN_DATA_INT8 && r.window[0] * r.window[1] <= 128 &&
         std::equal(r.index.sizes, r.index.sizes + 4, r.y.sizes);
}

}  // namespace

cudnnStatus_t check_resample(const BackendDescriptor& operation) {
  const BackendDescriptor& settings = operation.child(names_of(operation).settings);
  const Resample r = resample_of(operation);
  const auto padding = settings.get<cudnnPaddingMode_t>(CUDNN_ATTR_RESAMPLE_PADDING_MODE);
  if (settings.get<int64_t>(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS) != 2 ||
      settings.get<cudnnDataType_t>(CUDNN_ATTR_RESAMPLE_COMP_TYPE) != CUDNN_DATA_FLOAT ||
      padding != (r.is_max() ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD) || !index_fits(r)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  return r.fits() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
}

cudnnStatus_t run_resample(const cudnnContext* handle, const BackendDescriptor& operation,
                           Engine engine, const BackendDescriptor& pack) {
  const ResampleNames names = names_of(operation);
  Resample resample = resample_of(operation);
  resample.engine = engine;
  if (!bind(resample.x, operation.child(names.x), pack) ||
      !bind(resample.y, operation.child(names.y), pack) ||
      (resample.has_index && !bind(resample.index, operation.child(names.index), pack))) {
    return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  }
  return launch_stand_in(handle, kStandInThreads,
                         resample.forward ? forward_kernel : backward_kernel, resample);
}

}  // namespace cudasim
