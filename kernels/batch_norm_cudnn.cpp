// Batch normalisation by cuDNN's graph API, in training: (rows, channels) as `rows` images of one
// pixel. A ReLU is a pass of its own after it; its gradient, and evaluation, which has no operation
// of its own, are native. cuDNN keeps 1 / sqrt(var + eps), from which the variance follows; running
// statistics are moved by heddle's own kernel, for they are the average of all shards. Computed in
// float32. Deterministic: engines that are not are passed by.
#include "heddle/kernels/batch_norm.h"

#include "heddle/kernels/vendor/cudnn.h"
#include "heddle/kernels/vendor/epilogue.h"

namespace heddle::cudnn {
namespace {

// The tensors' ids in a graph.
constexpr int64_t kX = 1;
constexpr int64_t kY = 2;  // or its gradient
constexpr int64_t kMean = 3;
constexpr int64_t kInvStd = 4;
constexpr int64_t kWeight = 5;
constexpr int64_t kBias = 6;
constexpr int64_t kEps = 7;
constexpr int64_t kDx = 8;
constexpr int64_t kDw = 9;
constexpr int64_t kDb = 10;

/// What cuDNN's engines ask for: they read vectors, and channels in whole ones.
constexpr int64_t kAlignment = 16;

Descriptor rows_of(int64_t id, const BatchNormProblem& p) {
  return image(id, data_type(p.dtype), {p.rows, p.channels, 1, 1}, kAlignment);
}

Descriptor channels_of(int64_t id, const BatchNormProblem& p) {
  return image(id, CUDNN_DATA_FLOAT, {1, p.channels, 1, 1}, kAlignment);
}

/// A part of an operation, under the name that it has there.
struct Part {
  cudnnBackendAttributeName_t name;
  Descriptor descriptor;
};

PlanRef make_plan(Descriptor operation, std::vector<Part> parts, StreamRef stream) {
  std::vector<Descriptor> descriptors;
  for (Part& part : parts) {
    operation.set(part.name, part.descriptor);
    descriptors.push_back(std::move(part.descriptor));
  }
  if (operation.try_to_finalize() != CUDNN_STATUS_SUCCESS) return nullptr;
  descriptors.push_back(std::move(operation));
  return Plan::make(std::move(descriptors), TensorCores::kYes, stream);
}

PlanRef make_plan(const BatchNormForwardArgs& args, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  Descriptor operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_BATCH_NORM)
      .set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING);
  std::vector<Part> parts;
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, rows_of(kX, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, rows_of(kY, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, channels_of(kMean, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, channels_of(kInvStd, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, channels_of(kWeight, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, channels_of(kBias, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, scalar(kEps)});
  return make_plan(std::move(operation), std::move(parts), stream);
}

PlanRef make_plan(const BatchNormBackwardArgs& args, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  Descriptor operation(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_BATCH_NORM);
  std::vector<Part> parts;
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, rows_of(kX, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, rows_of(kY, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, rows_of(kDx, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, channels_of(kMean, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, channels_of(kInvStd, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, channels_of(kWeight, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, channels_of(kDw, p)});
  parts.push_back({CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, channels_of(kDb, p)});
  return make_plan(std::move(operation), std::move(parts), stream);
}

Bindings bindings_of(const BatchNormForwardArgs& args) {
  const BatchNormProblem& p = args.problem;
  return {{kX, args.x},        {kY, args.y},   {kMean, args.mean}, {kInvStd, args.inv_std},
          {kWeight, p.weight}, {kBias, p.bias}};
}

Bindings bindings_of(const BatchNormBackwardArgs& args) {
  return {{kX, args.x},       {kY, args.dy},           {kDx, args.dx},
          {kMean, args.mean}, {kInvStd, args.inv_std}, {kWeight, args.problem.weight},
          {kDw, args.dw},     {kDb, args.db}};
}

template <class Args>
PlanRef plan_of(const Args& args, StreamRef stream) {
  return find_plan(args.key(), stream, [&] { return make_plan(args, stream); });
}

/// Bindings without data lie anywhere.
template <class Args>
bool supports(const Args& args, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  std::vector<const void*> pointers;
  for (const auto& [id, pointer] : bindings_of(args)) pointers.push_back(pointer);
  return takes(p.dtype) && p.rows > 0 && p.channels > 0 && p.weight != nullptr &&
         p.bias != nullptr && common_alignment(pointers) == kAlignment &&
         plan_of(args, stream) != nullptr;
}

}  // namespace

bool batch_norm_forward_supports(const BatchNormForwardArgs& args, StreamRef stream) {
  return supports(args, stream);
}
bool batch_norm_backward_supports(const BatchNormBackwardArgs& args, StreamRef stream) {
  return args.training && !args.problem.relu && args.dx != nullptr && supports(args, stream);
}

void batch_norm_forward(const BatchNormForwardArgs& args, StreamRef stream) {
  const BatchNormProblem& p = args.problem;
  const float eps = static_cast<float>(args.eps);
  Bindings bindings = bindings_of(args);
  bindings.emplace_back(kEps, &eps);
  run_plan(plan_of(args, stream), args.key(), bindings, stream);
  cuda::batch_norm_variance(args.var, args.inv_std, args.eps, p.channels, stream);
  if (p.relu) apply_relu(args.y, p.rows * p.channels, p.dtype, stream);
}

void batch_norm_backward(const BatchNormBackwardArgs& args, StreamRef stream) {
  run_plan(plan_of(args, stream), args.key(), bindings_of(args), stream);
}

}  // namespace heddle::cudnn
