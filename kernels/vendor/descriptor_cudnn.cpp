#include "heddle/kernels/vendor/cudnn.h"

namespace heddle::cudnn {
namespace {

void* create(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  HEDDLE_CUDA_CHECK(cudnnBackendCreateDescriptor(type, &descriptor));
  return descriptor;
}

}  // namespace

void Descriptor::Destroy::operator()(void* descriptor) const noexcept {
  // Nothing on the device hangs on it; there is nobody to tell of a failure.
  static_cast<void>(cudnnBackendDestroyDescriptor(descriptor));
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) : handle_(create(type)) {}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            size_t count, const void* values) {
  HEDDLE_CUDA_CHECK(
      cudnnBackendSetAttribute(get(), name, type, static_cast<int64_t>(count), values));
  return *this;
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
  return set(name, CUDNN_TYPE_INT64, values.size(), values.data());
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, int64_t value) {
  return set(name, CUDNN_TYPE_INT64, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, float value) {
  return set(name, CUDNN_TYPE_FLOAT, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, bool value) {
  return set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnConvolutionMode_t value) {
  return set(name, CUDNN_TYPE_CONVOLUTION_MODE, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnResampleMode_t value) {
  return set(name, CUDNN_TYPE_RESAMPLE_MODE, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnPaddingMode_t value) {
  return set(name, CUDNN_TYPE_PADDING_MODE, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnNanPropagation_t value) {
  return set(name, CUDNN_TYPE_NAN_PROPOGATION, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendNormMode_t value) {
  return set(name, CUDNN_TYPE_NORM_MODE, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendNormFwdPhase_t value) {
  return set(name, CUDNN_TYPE_NORM_FWD_PHASE, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value) {
  return set(name, CUDNN_TYPE_HEUR_MODE, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnHandle_t value) {
  return set(name, CUDNN_TYPE_HANDLE, 1, &value);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  const cudnnBackendDescriptor_t descriptor = value.get();
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<void*>& pointers) {
  return set(name, CUDNN_TYPE_VOID_PTR, pointers.size(), pointers.data());
}

void Descriptor::finalize() { HEDDLE_CUDA_CHECK(cudnnBackendFinalize(get())); }

cudnnStatus_t Descriptor::try_to_finalize() { return cudnnBackendFinalize(get()); }

}  // namespace heddle::cudnn
