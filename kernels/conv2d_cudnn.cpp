// Convolution by cuDNN's graph API, over channels-last tensors as they are. One operation a plan,
// so that every engine may be asked; a bias is laid into y first and the product added to it, which
// rounds once. Deterministic: engines that are not are passed by, so are those that would round
// float32 factors to TF32 where that is not allowed (kernels/provider.h). Sums in float32.
#include "heddle/kernels/conv2d.h"
#include "heddle/kernels/provider.h"
#include "heddle/kernels/reduce.h"
#include "heddle/kernels/vendor/cudnn.h"
#include "heddle/kernels/vendor/epilogue.h"

namespace heddle::cudnn {
namespace {

// The tensors' ids in a graph.
constexpr int64_t kX = 1;
constexpr int64_t kW = 2;
constexpr int64_t kY = 3;

struct Parts {
  Descriptor x, w, y, settings;

  Parts(const Conv2dGeometry& g, int64_t alignment);
};

Parts::Parts(const Conv2dGeometry& g, int64_t alignment)
    : x(image(kX, data_type(g.dtype), {g.batch, g.in_channels, g.in_h, g.in_w}, alignment)),
      w(image(kW, data_type(g.dtype),
              {g.out_channels, g.in_channels / g.groups, g.kernel_h, g.kernel_w}, alignment)),
      y(image(kY, data_type(g.dtype), {g.batch, g.out_channels, g.out_h, g.out_w}, alignment)),
      settings(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) {
  const std::vector<int64_t> pad{g.pad_h, g.pad_w};
  settings.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::vector<int64_t>{g.stride_h, g.stride_w})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<int64_t>{g.dilation_h, g.dilation_w})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pad)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pad);
  settings.finalize();
}

/// What an operation calls its parts.
struct Names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, settings, alpha, beta;
};

constexpr Names kForward{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr Names kBackwardData{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr Names kBackwardWeight{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

PlanRef make_plan(const Conv2dGeometry& g, const Names& names, int64_t alignment, float beta,
                  StreamRef stream) {
  Parts parts(g, alignment);
  Descriptor operation(names.type);
  operation.set(names.x, parts.x)
      .set(names.w, parts.w)
      .set(names.y, parts.y)
      .set(names.settings, parts.settings)
      .set(names.alpha, 1.0F)
      .set(names.beta, beta);
  if (operation.try_to_finalize() != CUDNN_STATUS_SUCCESS) return nullptr;
  std::vector<Descriptor> descriptors;
  for (Descriptor* part : {&parts.x, &parts.w, &parts.y, &parts.settings, &operation})
    descriptors.push_back(std::move(*part));
  const bool rounds = g.dtype == DType::kFloat32 && !allow_tf32();
  return Plan::make(std::move(descriptors), rounds ? TensorCores::kNo : TensorCores::kYes, stream);
}

bool worth_asking(const Conv2dGeometry& g) {
  return takes(g.dtype) && g.batch > 0 && g.in_channels > 0 && g.out_channels > 0;
}

PlanRef plan_of(const Conv2dGeometry& g, const std::string& key, const Names& names,
                const std::vector<const void*>& pointers, float beta, StreamRef stream) {
  const int64_t alignment = common_alignment(pointers);
  return find_plan(
      fmt::format("{} aligned {} beta {}{}", key, alignment, beta, allow_tf32() ? " tf32" : ""),
      stream, [&] { return make_plan(g, names, alignment, beta, stream); });
}

PlanRef plan_of(const Conv2dForwardArgs& args, StreamRef stream) {
  return plan_of(args.geometry, args.key(), kForward, {args.x, args.w, args.y},
                 args.bias != nullptr ? 1.0F : 0.0F, stream);
}
PlanRef plan_of(const Conv2dBackwardDataArgs& args, StreamRef stream) {
  return plan_of(args.geometry, args.key(), kBackwardData, {args.dx, args.w, args.dy}, 0.0F,
                 stream);
}
PlanRef plan_of(const Conv2dBackwardWeightArgs& args, StreamRef stream) {
  return plan_of(args.geometry, args.key(), kBackwardWeight, {args.x, args.dw, args.dy}, 0.0F,
                 stream);
}

template <class Args>
bool has_plan(const Args& args, StreamRef stream) {
  return worth_asking(args.geometry) && plan_of(args, stream) != nullptr;
}

template <class Args>
void run(const Args& args, const Bindings& bindings, StreamRef stream) {
  run_plan(plan_of(args, stream), args.key(), bindings, stream);
}

int64_t pixels(const Conv2dGeometry& g) { return g.batch * g.out_h * g.out_w; }

}  // namespace

bool conv2d_forward_supports(const Conv2dForwardArgs& args, StreamRef stream) {
  return has_plan(args, stream);
}
bool conv2d_backward_data_supports(const Conv2dBackwardDataArgs& args, StreamRef stream) {
  return has_plan(args, stream);
}
bool conv2d_backward_weight_supports(const Conv2dBackwardWeightArgs& args, StreamRef stream) {
  return has_plan(args, stream);
}

void conv2d_forward(const Conv2dForwardArgs& args, StreamRef stream) {
  const Conv2dGeometry& g = args.geometry;
  if (args.bias != nullptr) lay_bias(args.y, args.bias, pixels(g), g.out_channels, g.dtype, stream);
  run(args, {{kX, args.x}, {kW, args.w}, {kY, args.y}}, stream);
  if (args.relu) apply_relu(args.y, pixels(g) * g.out_channels, g.dtype, stream);
}

void conv2d_backward_data(const Conv2dBackwardDataArgs& args, StreamRef stream) {
  run(args, {{kX, args.dx}, {kW, args.w}, {kY, args.dy}}, stream);
}

void conv2d_backward_weight(const Conv2dBackwardWeightArgs& args, StreamRef stream) {
  const Conv2dGeometry& g = args.geometry;
  run(args, {{kX, args.x}, {kW, args.dw}, {kY, args.dy}}, stream);
  if (args.db == nullptr) return;
  const Strides strides{g.out_channels, 1};
  const View dy{const_cast<void*>(args.dy), g.dtype, {pixels(g), g.out_channels}, strides};
  cuda::reduce({View{args.db, g.dtype, {1, g.out_channels}, strides}, dy, ReduceOp::kSum}, stream);
}

}  // namespace heddle::cudnn
