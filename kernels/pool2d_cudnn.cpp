// Max and average pooling by cuDNN, as resample operations of its graph API, over channels-last
// images. The index of the maximum that it writes is our place in the window (row by row, padding
// counted, the first of equals), kept in a signed byte: windows of at most 128 elements.
// Deterministic: engines that are not are passed by. Sums in float32.
#include "heddle/kernels/pool2d.h"
#include "heddle/kernels/vendor/cudnn.h"

namespace heddle::cudnn {
namespace {

// The tensors' ids in a graph.
constexpr int64_t kX = 1;
constexpr int64_t kY = 2;
constexpr int64_t kIndex = 3;

constexpr int64_t kLargestIndexedWindow = 128;

/// What an operation calls its parts.
struct Names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, y, index, settings;
};

constexpr Names kForward{
    CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC,
    CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC,
    CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC};
constexpr Names kBackward{
    CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC,
    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC,
    CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC};

cudnnResampleMode_t average(bool count_include_pad) {
  return count_include_pad ? CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING
                           : CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
}

/// One pooling, as the graph describes it.
struct Pooling {
  const Pool2dGeometry& geometry;
  cudnnResampleMode_t mode;
  const Names& names;
  const void* x;
  const void* y;
  const void* places;  // null: none
};

Pooling pooling_of(const MaxPool2dForwardArgs& args) {
  return {args.geometry, CUDNN_RESAMPLE_MAXPOOL, kForward, args.x, args.y, args.places};
}
Pooling pooling_of(const MaxPool2dBackwardArgs& args) {
  return {args.geometry, CUDNN_RESAMPLE_MAXPOOL, kBackward, args.dx, args.dy, args.places};
}
Pooling pooling_of(const AvgPool2dForwardArgs& args) {
  return {args.geometry, average(args.count_include_pad), kForward, args.x, args.y, nullptr};
}
Pooling pooling_of(const AvgPool2dBackwardArgs& args) {
  return {args.geometry, average(args.count_include_pad), kBackward, args.dx, args.dy, nullptr};
}

Descriptor settings_of(const Pooling& pooling) {
  const Pool2dGeometry& g = pooling.geometry;
  const bool is_max = pooling.mode == CUDNN_RESAMPLE_MAXPOOL;
  const std::vector<int64_t> pad{g.pad_h, g.pad_w};
  Descriptor settings(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  settings.set(CUDNN_ATTR_RESAMPLE_MODE, pooling.mode)
      .set(CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN)
      .set(CUDNN_ATTR_RESAMPLE_PADDING_MODE, is_max ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD)
      .set(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, int64_t{2})
      .set(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, std::vector<int64_t>{g.kernel_h, g.kernel_w})
      .set(CUDNN_ATTR_RESAMPLE_STRIDES, std::vector<int64_t>{g.stride_h, g.stride_w})
      .set(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, pad)
      .set(CUDNN_ATTR_RESAMPLE_POST_PADDINGS, pad);
  settings.finalize();
  return settings;
}

PlanRef make_plan(const Pooling& pooling, int64_t alignment, StreamRef stream) {
  const Pool2dGeometry& g = pooling.geometry;
  const cudnnDataType_t type = data_type(g.dtype);
  const std::vector<int64_t> y_sizes{g.batch, g.channels, g.out_h, g.out_w};
  std::vector<Descriptor> descriptors;
  descriptors.push_back(image(kX, type, {g.batch, g.channels, g.in_h, g.in_w}, alignment));
  descriptors.push_back(image(kY, type, y_sizes, alignment));
  descriptors.push_back(settings_of(pooling));
  if (pooling.places != nullptr)
    descriptors.push_back(image(kIndex, CUDNN_DATA_INT8, y_sizes, alignment));
  Descriptor operation(pooling.names.type);
  operation.set(pooling.names.x, descriptors[0])
      .set(pooling.names.y, descriptors[1])
      .set(pooling.names.settings, descriptors[2]);
  if (pooling.places != nullptr) operation.set(pooling.names.index, descriptors[3]);
  if (operation.try_to_finalize() != CUDNN_STATUS_SUCCESS) return nullptr;
  descriptors.push_back(std::move(operation));
  return Plan::make(std::move(descriptors), TensorCores::kYes, stream);
}

template <class Args>
PlanRef plan_of(const Args& args, StreamRef stream) {
  const Pooling pooling = pooling_of(args);
  const int64_t alignment = common_alignment({pooling.x, pooling.y, pooling.places});
  return find_plan(fmt::format("{} aligned {}", args.key(), alignment), stream,
                   [&] { return make_plan(pooling, alignment, stream); });
}

template <class Args>
bool supports(const Args& args, StreamRef stream) {
  const Pool2dGeometry& g = args.geometry;
  const bool fits =
      pooling_of(args).places == nullptr || g.kernel_h * g.kernel_w <= kLargestIndexedWindow;
  return takes(g.dtype) && g.batch > 0 && g.channels > 0 && fits &&
         plan_of(args, stream) != nullptr;
}

template <class Args>
void run(const Args& args, StreamRef stream) {
  const Pooling pooling = pooling_of(args);
  Bindings bindings{{kX, pooling.x}, {kY, pooling.y}};
  if (pooling.places != nullptr) bindings.emplace_back(kIndex, pooling.places);
  run_plan(plan_of(args, stream), args.key(), bindings, stream);
}

}  // namespace

bool max_pool2d_forward_supports(const MaxPool2dForwardArgs& args, StreamRef stream) {
  return supports(args, stream);
}
bool max_pool2d_backward_supports(const MaxPool2dBackwardArgs& args, StreamRef stream) {
  return supports(args, stream);
}
bool avg_pool2d_forward_supports(const AvgPool2dForwardArgs& args, StreamRef stream) {
  return supports(args, stream);
}
bool avg_pool2d_backward_supports(const AvgPool2dBackwardArgs& args, StreamRef stream) {
  return supports(args, stream);
}

void max_pool2d_forward(const MaxPool2dForwardArgs& args, StreamRef stream) { run(args, stream); }
void max_pool2d_backward(const MaxPool2dBackwardArgs& args, StreamRef stream) { run(args, stream); }
void avg_pool2d_forward(const AvgPool2dForwardArgs& args, StreamRef stream) { run(args, stream); }
void avg_pool2d_backward(const AvgPool2dBackwardArgs& args, StreamRef stream) { run(args, stream); }

}  // namespace heddle::cudnn
