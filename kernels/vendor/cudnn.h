#pragma once

// What the *_cudnn.cpp share; for them alone. A graph of cuDNN's backend: tensors, an operation on
// them, and the plan of the first engine that the library proposes and that we accept.
#include <cudnn.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/cuda_check.h"
#include "heddle/core/dtype.h"
#include "heddle/core/stream.h"
#include "heddle/kernels/vendor/handle_lease.h"

namespace heddle::detail {

/// HEDDLE_CUDA_CHECK of a cuDNN call.
void check_cuda(cudnnStatus_t status, const char* call, const char* file, int line);

}  // namespace heddle::detail

namespace heddle::cudnn {

std::string library();  ///< With the version that is linked.

cudnnHandle_t create_handle();  ///< On the current device.
using Lease = HandleLease<cudnnHandle_t, &create_handle>;

cudnnDataType_t data_type(DType dtype);  ///< Errors: not float32, float16 or bfloat16.
bool takes(DType dtype);

/// A descriptor of the backend, destroyed with its owner.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values);
  Descriptor& set(cudnnBackendAttributeName_t name, int64_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, float value);
  Descriptor& set(cudnnBackendAttributeName_t name, bool value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnConvolutionMode_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnResampleMode_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnPaddingMode_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnNanPropagation_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendNormMode_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendNormFwdPhase_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnHandle_t value);
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value);
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<void*>& pointers);
  void finalize();
  cudnnStatus_t try_to_finalize();

  cudnnBackendDescriptor_t get() const { return handle_.get(); }

 private:
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t count,
                  const void* values);

  struct Destroy {
    void operator()(void* descriptor) const noexcept;
  };
  std::unique_ptr<void, Destroy> handle_;
};

/// A dense channels-last tensor of sizes (N, C, H, W); `alignment` in bytes of where the data lies.
Descriptor image(int64_t id, cudnnDataType_t type, const std::vector<int64_t>& sizes,
                 int64_t alignment);
/// One float, read on the host when a plan runs.
Descriptor scalar(int64_t id);
/// The largest power of two up to 16 that all pointers are multiples of.
int64_t common_alignment(const std::vector<const void*>& pointers);

using Bindings = std::vector<std::pair<int64_t, const void*>>;  ///< a tensor's id, and its data

/// Whether an operation may run on tensor cores, where products round float32 factors to TF32.
/// Engines say that they use them even of operations without products: poolings, for instance.
enum class TensorCores { kNo, kYes };

class Plan;
using PlanRef = std::shared_ptr<const Plan>;

/// How to compute one operation: runs on any stream of the device it was made for.
class Plan {
 public:
  /// Of the operation that is the last of `descriptors`; the ones before are what it refers to.
  /// Null where no engine computes it with the same bits each run and sums in float32.
  static PlanRef make(std::vector<Descriptor> descriptors, TensorCores tensor_cores,
                      StreamRef stream);

  void run(const Bindings& bindings, StreamRef stream) const;

 private:
  Plan(std::vector<Descriptor> descriptors, int64_t workspace_bytes)
      : descriptors_(std::move(descriptors)), workspace_bytes_(workspace_bytes) {}

  std::vector<Descriptor> descriptors_;  // the last is the execution plan
  int64_t workspace_bytes_;
};

/// The plan that `make` made first for this key on the stream's device; null where there is none.
PlanRef find_plan(const std::string& key, StreamRef stream, const std::function<PlanRef()>& make);

/// Errors: there is no plan, naming `key`.
void run_plan(const PlanRef& plan, const std::string& key, const Bindings& bindings,
              StreamRef stream);

}  // namespace heddle::cudnn
