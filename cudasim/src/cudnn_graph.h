#pragma once

// What the stand-ins of cuDNN share.
#include <cudnn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

struct cudnnContext {
  int device = 0;
  cudaStream_t stream = nullptr;
};

namespace cudasim {

/// An element of a tensor, in memory that a kernel of the stand-in reads and writes.
float load_element(cudnnDataType_t type, const char* place);
void store_element(cudnnDataType_t type, char* place, float value);
size_t bytes_of(cudnnDataType_t type);

/// Launches on the handle's stream; a handle belongs to the device that it was made on.
template <class Kernel, class Argument>
cudnnStatus_t launch_stand_in(const cudnnContext* handle, unsigned threads, Kernel* kernel,
                              const Argument& argument) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device != handle->device) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = threads;
  config.stream = handle->stream;
  return cudaLaunchKernelEx(&config, kernel, argument) == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}

/// A tensor of four dimensions, in logical order (N, C, H, W).
struct StandInTensor {
  char* data = nullptr;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int64_t sizes[4] = {};
  int64_t strides[4] = {};

  /// A place in the tensor, or in a filter (o, c, i, j).
  struct Place {
    int64_t n, c, h, w;
  };

  int64_t n() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
  /// Of element `index` in logical order.
  Place place(int64_t index) const {
    return {index / (sizes[3] * sizes[2] * sizes[1]), index / (sizes[3] * sizes[2]) % sizes[1],
            index / sizes[3] % sizes[2], index % sizes[3]};
  }
  char* at(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return data +
           static_cast<size_t>(a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]) *
               bytes_of(type);
  }
  char* at(const Place& at_place) const {
    return at(at_place.n, at_place.c, at_place.h, at_place.w);
  }
};

constexpr unsigned kStandInThreads = 32;  // of a kernel: each takes every 32nd element

/// Of a kernel of the stand-in: an element, and what the checkers are told of it.
float read_element(const StandInTensor& t, const char* place);
void write_element(const StandInTensor& t, char* place, float value);
/// Tells the checkers of each element once, whoever reads it how often.
void report_reads(const StandInTensor& t);

enum class Engine : int64_t { kOtherBits, kTensorCores, kPlain };

/// A descriptor of the backend: its attributes as they were set, in bytes.
struct BackendDescriptor {
  struct Attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::vector<char> bytes;
  };

  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  Engine engine = Engine::kPlain;  // of an engine and of a configuration

  bool has(cudnnBackendAttributeName_t name) const { return attributes.count(name) == 1; }
  bool is(cudnnBackendAttributeName_t name) const { return has(name) && get<bool>(name); }
  template <class T>
  T get(cudnnBackendAttributeName_t name, size_t index = 0) const {
    T value{};
    const Attribute& attribute = attributes.at(name);
    std::memcpy(&value, attribute.bytes.data() + index * sizeof(T), sizeof(T));
    return value;
  }
  const BackendDescriptor& child(cudnnBackendAttributeName_t name, size_t index = 0) const {
    return *get<const BackendDescriptor*>(name, index);
  }
};

StandInTensor tensor_of(const BackendDescriptor& descriptor);  ///< Without data.
/// Gives the tensor its data, from the pack; false where there is none or it lies badly.
bool bind(StandInTensor& tensor, const BackendDescriptor& descriptor,
          const BackendDescriptor& pack);

using AttributeNames = std::vector<cudnnBackendAttributeName_t>;
/// What must be set before a descriptor can be finalized, and what may be.
AttributeNames required_attributes(cudnnBackendDescriptorType_t type);
AttributeNames optional_attributes(cudnnBackendDescriptorType_t type);
cudnnBackendAttributeType_t type_of(cudnnBackendAttributeName_t name);
size_t bytes_of(cudnnBackendAttributeType_t type);

/// Whether an operation's tensors go together.
cudnnStatus_t check_convolution(const BackendDescriptor& operation);
cudnnStatus_t check_resample(const BackendDescriptor& operation);
cudnnStatus_t check_norm(const BackendDescriptor& operation);
/// Launches an operation by an engine, on the pack's data.
cudnnStatus_t run_convolution(const cudnnContext* handle, const BackendDescriptor& operation,
                              Engine engine, const BackendDescriptor& pack);
cudnnStatus_t run_resample(const cudnnContext* handle, const BackendDescriptor& operation,
                           Engine engine, const BackendDescriptor& pack);
cudnnStatus_t run_norm(const cudnnContext* handle, const BackendDescriptor& operation,
                       Engine engine, const BackendDescriptor& pack);

}  // namespace cudasim
