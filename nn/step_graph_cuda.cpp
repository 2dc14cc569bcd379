#include "heddle/nn/step_graph.h"

#include <algorithm>

#include "heddle/core/capture_arena.h"
#include "heddle/core/cuda_check.h"
#include "heddle/core/cuda_handle.h"
#include "heddle/core/device_guard.h"
#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"

namespace heddle {
namespace {

constexpr int64_t kLeastArena = int64_t{1} << 20;
constexpr int kTries = 4;  // an arena that fragments is doubled

void destroy_graph(cudaGraph_t graph) noexcept { HEDDLE_CUDA_WARN(cudaGraphDestroy(graph)); }
void destroy_exec(cudaGraphExec_t exec) noexcept { HEDDLE_CUDA_WARN(cudaGraphExecDestroy(exec)); }
using Graph = CudaHandle<cudaGraph_t, destroy_graph>;
using GraphExec = CudaHandle<cudaGraphExec_t, destroy_exec>;

/// A capture of `stream` by this thread; one that is not finished is thrown away.
class Capture {
 public:
  explicit Capture(StreamRef stream) : stream_(stream) {
    HEDDLE_CUDA_CHECK(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  }
  ~Capture() {
    if (ended_) return;
    cudaGraph_t graph = nullptr;
    (void)cudaStreamEndCapture(stream_.get(), &graph);  // says that the capture was spoilt
    (void)cudaGetLastError();
    if (graph != nullptr) destroy_graph(graph);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Graph end() {
    ended_ = true;
    cudaGraph_t graph = nullptr;
    HEDDLE_CUDA_CHECK(cudaStreamEndCapture(stream_.get(), &graph));
    return Graph(graph);
  }

 private:
  StreamRef stream_;
  bool ended_ = false;
};

struct Form {
  Shape shape;
  Strides strides;
  DType dtype;

  bool fits(const Tensor& x) const {
    return x.shape() == shape && x.strides() == strides && x.dtype() == dtype;
  }
};

}  // namespace

/// One set of input shapes. Members go in the reverse of their order: outputs before the arenas.
struct StepGraph::Entry {
  int runs = 0;
  int64_t needed = 0;                                 // bytes that a warm-up run took at most
  std::vector<std::unique_ptr<CaptureArena>> arenas;  // the last is the graph's
  std::vector<Form> forms;
  Tensors inputs;                     // that the graph reads
  std::optional<int64_t> first_step;  // that was captured, where steps are numbered
  Tensor steps;                       // since then; read by the graph
  Tensors outputs;
  GraphExec exec;
};

StepGraph::StepGraph(Device device, int warm_up) : device_(device), warm_up_(warm_up) {
  HEDDLE_CHECK(device.type == DeviceType::kCuda, "StepGraph: {} has no graphs, expected cuda:N",
               device.to_string());
  HEDDLE_CHECK(warm_up >= 1, "StepGraph: warm_up is {}, expected at least 1", warm_up);
}

StepGraph::~StepGraph() {
  for (const auto& entry : entries_)
    if (entry->exec.get() != nullptr)
      HEDDLE_CUDA_WARN(cudaStreamSynchronize(current_stream(device_).get()));
}

StepGraph::Entry& StepGraph::entry_for(const Tensors& inputs) {
  const auto fits = [](const Form& form, const Tensor& input) { return form.fits(input); };
  for (const auto& entry : entries_)
    if (std::equal(entry->forms.begin(), entry->forms.end(), inputs.begin(), inputs.end(), fits))
      return *entry;
  entries_.push_back(std::make_unique<Entry>());
  for (const Tensor& input : inputs)
    entries_.back()->forms.push_back({input.shape(), input.strides(), input.dtype()});
  return *entries_.back();
}

StepGraph::Tensors StepGraph::run(const Tensors& inputs, const Body& body,
                                  std::optional<int64_t> step) {
  for (const Tensor& input : inputs)
    HEDDLE_CHECK(input.device() == device_, "StepGraph: an input is on {}, expected {}",
                 input.device().to_string(), device_.to_string());
  const DeviceGuard guard(device_);
  Entry& entry = entry_for(inputs);
  if (entry.runs < warm_up_) return warm_up_run(entry, inputs, body);
  if (entry.exec.get() == nullptr) {
    capture(entry, inputs, body, step);
  } else {
    prepare_replay(entry, inputs, step);
  }
  HEDDLE_CUDA_CHECK(cudaGraphLaunch(entry.exec.get(), current_stream(device_).get()));
  ++replays_;
  return entry.outputs;
}

StepGraph::Tensors StepGraph::warm_up_run(Entry& entry, const Tensors& inputs, const Body& body) {
  memory::reset_peak(device_);
  const int64_t before = memory::stats(device_).in_use;
  Tensors outputs = body(inputs);
  const int64_t taken = memory::stats(device_).peak_in_use - before;
  entry.needed = std::max(entry.needed, taken + taken / 8);
  ++entry.runs;
  return outputs;
}

void StepGraph::prepare_replay(Entry& entry, const Tensors& inputs,
                               std::optional<int64_t> step) const {
  HEDDLE_CHECK(step.has_value() == entry.first_step.has_value(),
               "StepGraph: run {} the number of the step, the captured run was {} it",
               step ? "is given" : "lacks", entry.first_step ? "given" : "not given");
  const NoGradGuard no_grad;
  for (size_t i = 0; i < inputs.size(); ++i) copy_(entry.inputs[i], inputs[i]);
  if (step) fill_(entry.steps, static_cast<double>(*step - *entry.first_step));
}

void StepGraph::capture(Entry& entry, const Tensors& inputs, const Body& body,
                        std::optional<int64_t> step) try {
  {
    const NoGradGuard no_grad;
    entry.inputs.clear();  // of a capture that failed
    for (const Tensor& input : inputs) entry.inputs.push_back(clone(input.detach()));
    entry.first_step = step;
    if (step) entry.steps = zeros({}, DType::kInt64, device_);
  }
  int64_t bytes = std::max(kLeastArena, entry.needed);
  for (int tries = 1; !try_capture(entry, bytes, body); ++tries) {
    HEDDLE_CHECK(tries < kTries, "StepGraph: {} bytes do not hold the step, {} were expected to",
                 bytes, entry.needed);
    bytes *= 2;
  }
} catch (const Error& error) {
  throw CaptureError(fmt::format("the step cannot be captured as a graph: {}", error.what()));
}

/// False where the arena is too small.
bool StepGraph::try_capture(Entry& entry, int64_t bytes, const Body& body) {
  const StreamRef stream = current_stream(device_);
  entry.arenas.push_back(std::make_unique<CaptureArena>(bytes, stream));
  CaptureArena& arena = *entry.arenas.back();
  if (entry.steps.defined()) arena.set_steps(entry.steps.data<int64_t>());
  const CaptureArena::Scope scope(arena);
  Capture capture(stream);
  try {
    entry.outputs = body(entry.inputs);
  } catch (const Error&) {
    if (!arena.is_full()) throw;
    return false;
  }
  const Graph graph = capture.end();
  cudaGraphExec_t exec = nullptr;
  HEDDLE_CUDA_CHECK(cudaGraphInstantiate(&exec, graph.get(), 0));
  entry.exec = GraphExec(exec);
  return true;
}

}  // namespace heddle
