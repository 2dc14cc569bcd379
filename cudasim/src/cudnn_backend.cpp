#include <algorithm>

#include "cudnn_graph.h"
#include "memory.h"

namespace cudasim {
namespace {

constexpr int64_t kWorkspaceBytes = 512;  // asked for so that callers must have some

bool is_convolution(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

bool is_resample(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR;
}

bool is_norm(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR;
}

cudnnStatus_t check(const BackendDescriptor& d) {
  for (const cudnnBackendAttributeName_t name : required_attributes(d.type)) {
    if (!d.has(name)) return CUDNN_STATUS_BAD_PARAM;
  }
  if (d.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR &&
      (d.attributes.at(CUDNN_ATTR_TENSOR_DIMENSIONS).count != 4 ||
       d.attributes.at(CUDNN_ATTR_TENSOR_STRIDES).count != 4)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (d.type == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR &&
      (d.get<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != 2 ||
       d.get<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION ||
       d.get<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  for (const auto& [name, attribute] : d.attributes) {
    if (attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
    for (int64_t i = 0; i < attribute.count; ++i) {
      if (!d.child(name, static_cast<size_t>(i)).finalized) {
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
      }
    }
  }
  if (is_convolution(d.type)) return check_convolution(d);
  if (is_resample(d.type)) return check_resample(d);
  if (is_norm(d.type)) return check_norm(d);
  return CUDNN_STATUS_SUCCESS;
}

/// What a heuristic proposes for an operation: cuDNN's engines for anything but products say of
/// themselves that they use tensor cores.
std::vector<Engine> engines_for(cudnnBackendDescriptorType_t operation,
                                cudnnBackendHeurMode_t mode) {
  const bool all = mode == CUDNN_HEUR_MODE_A;
  if (!is_convolution(operation)) {
    return all ? std::vector{Engine::kOtherBits, Engine::kTensorCores}
               : std::vector{Engine::kTensorCores};
  }
  return all ? std::vector{Engine::kOtherBits, Engine::kTensorCores, Engine::kPlain}
             : std::vector{Engine::kPlain};
}

/// Hands out the engines that a heuristic proposes.
void fill_proposals(const BackendDescriptor& heuristic, int64_t capacity, int64_t* count,
                    void* elements) {
  const BackendDescriptor& graph = heuristic.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const std::vector<Engine> engines =
      engines_for(graph.child(CUDNN_ATTR_OPERATIONGRAPH_OPS).type,
                  heuristic.get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE));
  *count = static_cast<int64_t>(engines.size());
  if (capacity == 0) return;
  *count = std::min(*count, capacity);
  for (int64_t i = 0; i < *count; ++i) {
    BackendDescriptor& out = *static_cast<BackendDescriptor**>(elements)[i];
    const BackendDescriptor* pointer = &graph;
    out.engine = engines[static_cast<size_t>(i)];
    const char* bytes = reinterpret_cast<const char*>(&pointer);
    out.attributes[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] = {
        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, std::vector<char>(bytes, bytes + sizeof(pointer))};
    out.finalized = true;
  }
}

void fill_notes(Engine engine, int64_t* count, void* elements) {
  *count = engine == Engine::kPlain ? 0 : 1;
  if (*count == 1) {
    *static_cast<cudnnBackendNumericalNote_t*>(elements) =
        engine == Engine::kOtherBits ? CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC
                                     : CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  }
}

cudnnStatus_t execute_plan(const cudnnContext* handle, const BackendDescriptor& plan,
                           const BackendDescriptor& pack) {
  void* const workspace = pack.get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const Allocation* allocation = find_allocation(workspace);
  if (allocation == nullptr || allocation->freed ||
      !allocation->contains(workspace, static_cast<size_t>(kWorkspaceBytes))) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const BackendDescriptor& configuration = plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const BackendDescriptor& operation = configuration.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
                                           .child(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (is_convolution(operation.type)) {
    return run_convolution(handle, operation, configuration.engine, pack);
  }
  if (is_norm(operation.type)) {
    return run_norm(handle, operation, configuration.engine, pack);
  }
  return run_resample(handle, operation, configuration.engine, pack);
}

}  // namespace

StandInTensor tensor_of(const BackendDescriptor& descriptor) {
  StandInTensor t;
  t.type = descriptor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  for (size_t i = 0; i < 4; ++i) {
    t.sizes[i] = descriptor.get<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, i);
    t.strides[i] = descriptor.get<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, i);
  }
  return t;
}

bool bind(StandInTensor& tensor, const BackendDescriptor& descriptor,
          const BackendDescriptor& pack) {
  const int64_t id = descriptor.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  const int64_t n = pack.attributes.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count;
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    if (pack.get<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, at) != id) continue;
    tensor.data = pack.get<char*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, at);
  }
  const int64_t alignment = descriptor.get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  return tensor.data != nullptr &&
         reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(alignment) == 0;
}

}  // namespace cudasim

using cudasim::BackendDescriptor;

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *descriptor = new BackendDescriptor{.type = type};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<BackendDescriptor*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* elements) {
  if (descriptor == nullptr || elements == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  BackendDescriptor& d = *static_cast<BackendDescriptor*>(descriptor);
  if (d.finalized || count < 1) return CUDNN_STATUS_BAD_PARAM;
  if (type != cudasim::type_of(name)) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
  cudasim::AttributeNames names = cudasim::required_attributes(d.type);
  const cudasim::AttributeNames optional = cudasim::optional_attributes(d.type);
  names.insert(names.end(), optional.begin(), optional.end());
  if (std::find(names.begin(), names.end(), name) == names.end()) return CUDNN_STATUS_BAD_PARAM;
  const char* bytes = static_cast<const char*>(elements);
  const auto n_bytes = static_cast<std::ptrdiff_t>(cudasim::bytes_of(type)) * count;
  d.attributes[name] = {type, count, std::vector<char>(bytes, bytes + n_bytes)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t capacity,
                                       int64_t* count, void* elements) {
  if (descriptor == nullptr || count == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const BackendDescriptor& d = *static_cast<BackendDescriptor*>(descriptor);
  if (!d.finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    cudasim::fill_proposals(d, capacity, count, elements);
  } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    BackendDescriptor& engine = **static_cast<BackendDescriptor**>(elements);
    engine.engine = d.engine;
    engine.finalized = true;
    *count = 1;
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE) {
    cudasim::fill_notes(d.engine, count, elements);
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64) {
    *static_cast<int64_t*>(elements) = cudasim::kWorkspaceBytes;
    *count = 1;
  } else {
    return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  BackendDescriptor& d = *static_cast<BackendDescriptor*>(descriptor);
  const cudnnStatus_t status = cudasim::check(d);
  d.finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  if (handle == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  if (plan == nullptr || pack == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const BackendDescriptor& p = *static_cast<BackendDescriptor*>(plan);
  const BackendDescriptor& data = *static_cast<BackendDescriptor*>(pack);
  if (!p.finalized || !data.finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  return cudasim::execute_plan(handle, p, data);
}
