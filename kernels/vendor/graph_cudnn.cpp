#include <algorithm>
#include <map>
#include <mutex>

#include "heddle/kernels/device/scratch.h"
#include "heddle/kernels/vendor/cudnn.h"

namespace heddle::detail {

void check_cuda(cudnnStatus_t status, const char* call, const char* file, int line) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  throw CudaError(
      fmt::format("{}: {} at {}:{}", call, cudnnGetErrorString(status), short_path(file), line),
      cudnnGetErrorString(status));
}

}  // namespace heddle::detail

namespace heddle::cudnn {
namespace {

// More than this is memory that activations need.
constexpr int64_t kMaxWorkspaceBytes = int64_t{512} << 20;

/// Gives up what an engine may do that we do not want, by its notes.
bool is_wanted(cudnnBackendNumericalNote_t note, TensorCores tensor_cores) {
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:  // loses half of the digits
      return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      return tensor_cores == TensorCores::kYes;
    default:
      return true;
  }
}

bool engine_is_wanted(const Descriptor& configuration, TensorCores tensor_cores) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t out = engine.get();
  int64_t count = 0;
  HEDDLE_CUDA_CHECK(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &out));
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  HEDDLE_CUDA_CHECK(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                             CUDNN_TYPE_NUMERICAL_NOTE,
                                             CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
  const auto n_notes = std::min<int64_t>(count, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return std::all_of(notes, notes + n_notes, [&](cudnnBackendNumericalNote_t note) {
    return is_wanted(note, tensor_cores);
  });
}

/// What the library proposes for the graph, the best first; nothing where it knows none.
std::vector<Descriptor> propose(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  std::vector<Descriptor> proposals;
  if (heuristic.try_to_finalize() != CUDNN_STATUS_SUCCESS) return proposals;
  int64_t count = 0;
  HEDDLE_CUDA_CHECK(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<cudnnBackendDescriptor_t> out;
  for (int64_t i = 0; i < count; ++i) {
    proposals.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    out.push_back(proposals.back().get());
  }
  if (count == 0) return proposals;
  int64_t written = 0;
  HEDDLE_CUDA_CHECK(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &written,
                                             out.data()));
  proposals.erase(proposals.begin() + std::min(count, written), proposals.end());
  return proposals;
}

int64_t workspace_of(const Descriptor& plan) {
  int64_t bytes = 0, count = 0;
  HEDDLE_CUDA_CHECK(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                             CUDNN_TYPE_INT64, 1, &count, &bytes));
  return bytes;
}

struct Plans {
  std::mutex mutex;
  std::map<std::pair<int, std::string>, PlanRef> of_key;
};

Plans& plans() {
  static Plans& instance = *new Plans;  // never destroyed: plans must not outlive the driver
  return instance;
}

}  // namespace

cudnnHandle_t create_handle() {
  cudnnHandle_t handle = nullptr;
  HEDDLE_CUDA_CHECK(cudnnCreate(&handle));
  return handle;
}

std::string library() {
  const size_t version = cudnnGetVersion();  // 91900
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

bool takes(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

cudnnDataType_t data_type(DType dtype) {
  HEDDLE_CHECK(takes(dtype), "cudnn: dtype is {}, expected float32, float16 or bfloat16", dtype);
  if (dtype == DType::kFloat32) return CUDNN_DATA_FLOAT;
  return dtype == DType::kFloat16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

namespace {

Descriptor tensor(int64_t id, cudnnDataType_t type, const std::vector<int64_t>& sizes,
                  int64_t alignment, bool by_value) {
  const int64_t channels = sizes[1], height = sizes[2], width = sizes[3];
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)
      .set(CUDNN_ATTR_TENSOR_STRIDES,
           std::vector<int64_t>{height * width * channels, 1, width * channels, channels})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment)
      .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, by_value);
  descriptor.finalize();
  return descriptor;
}

}  // namespace

Descriptor image(int64_t id, cudnnDataType_t type, const std::vector<int64_t>& sizes,
                 int64_t alignment) {
  return tensor(id, type, sizes, alignment, false);
}

Descriptor scalar(int64_t id) {
  return tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, static_cast<int64_t>(sizeof(float)), true);
}

int64_t common_alignment(const std::vector<const void*>& pointers) {
  uintptr_t bits = 16;
  for (const void* pointer : pointers) bits |= reinterpret_cast<uintptr_t>(pointer);
  return static_cast<int64_t>(bits & (~bits + 1));
}

PlanRef Plan::make(std::vector<Descriptor> descriptors, TensorCores tensor_cores,
                   StreamRef stream) {
  const Lease handle(stream);
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, descriptors.back())
      .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle.get());
  if (graph.try_to_finalize() != CUDNN_STATUS_SUCCESS) return nullptr;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (Descriptor& configuration : propose(graph, mode)) {
      if (!engine_is_wanted(configuration, tensor_cores)) continue;
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle.get())
          .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (plan.try_to_finalize() != CUDNN_STATUS_SUCCESS) continue;
      const int64_t workspace = workspace_of(plan);
      if (workspace > kMaxWorkspaceBytes) continue;
      descriptors.push_back(std::move(graph));
      descriptors.push_back(std::move(configuration));
      descriptors.push_back(std::move(plan));
      return PlanRef(new Plan(std::move(descriptors), workspace));
    }
  return nullptr;
}

void Plan::run(const Bindings& bindings, StreamRef stream) const {
  std::vector<int64_t> ids;
  std::vector<void*> data;
  for (const auto& [id, pointer] : bindings) {
    ids.push_back(id);
    data.push_back(const_cast<void*>(pointer));
  }
  const Lease handle(stream);
  const DeviceScratch workspace(workspace_bytes_, stream);
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::vector<void*>{workspace.data()});
  pack.finalize();
  HEDDLE_CUDA_CHECK(cudnnSetStream(handle.get(), stream.get()));
  HEDDLE_CUDA_CHECK(cudnnBackendExecute(handle.get(), descriptors_.back().get(), pack.get()));
}

PlanRef find_plan(const std::string& key, StreamRef stream, const std::function<PlanRef()>& make) {
  const std::pair<int, std::string> place(stream.device().index, key);
  {
    const std::lock_guard lock(plans().mutex);
    const auto found = plans().of_key.find(place);
    if (found != plans().of_key.end()) return found->second;
  }
  const PlanRef made = make();
  const std::lock_guard lock(plans().mutex);
  return plans().of_key.emplace(place, made).first->second;
}

void run_plan(const PlanRef& plan, const std::string& key, const Bindings& bindings,
              StreamRef stream) {
  HEDDLE_CHECK(plan != nullptr, "{}: cuDNN has no engine for it, use provider native or auto", key);
  plan->run(bindings, stream);
}

}  // namespace heddle::cudnn
