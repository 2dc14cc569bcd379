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

/// A capture of several devices' streams by this thread, which begins and ends in the first of
/// them; one that is not finished is thrown away.
class Capture {
 public:
  explicit Capture(const std::vector<StreamRef>& streams) : streams_(streams) {
    HEDDLE_CUDA_CHECK(cudaStreamBeginCapture(first().get(), cudaStreamCaptureModeThreadLocal));
    try {
      for (const StreamRef stream : streams_) stream.wait(first());  // joins the capture
    } catch (...) {
      throw_away();
      throw;
    }
  }
  ~Capture() {
    if (!ended_) throw_away();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Graph end() {
    for (const StreamRef stream : streams_) first().wait(stream);
    ended_ = true;
    cudaGraph_t graph = nullptr;
    HEDDLE_CUDA_CHECK(cudaStreamEndCapture(first().get(), &graph));
    return Graph(graph);
  }

 private:
  StreamRef first() const { return streams_.front(); }

  void throw_away() noexcept {
    cudaGraph_t graph = nullptr;
    (void)cudaStreamEndCapture(first().get(), &graph);  // says that the capture was spoilt
    (void)cudaGetLastError();
    if (graph != nullptr) destroy_graph(graph);
  }

  std::vector<StreamRef> streams_;
  bool ended_ = false;
};

struct Form {
  Device device;
  Shape shape;
  Strides strides;
  DType dtype;

  bool fits(const Tensor& x) const {
    return x.device() == device && x.shape() == shape && x.strides() == strides &&
           x.dtype() == dtype;
  }
};

/// What a graph has on one device.
struct Part {
  int64_t needed = 0;                                 // bytes that a warm-up run took at most
  int64_t bytes = 0;                                  // of the next arena
  std::vector<std::unique_ptr<CaptureArena>> arenas;  // the last is the graph's
  Tensor steps;                                       // since the captured one; read by the graph
};

}  // namespace

/// One set of input shapes. Members go in the reverse of their order: outputs before the arenas.
struct StepGraph::Entry {
  int runs = 0;
  std::vector<Part> parts;  // by device
  std::vector<Form> forms;
  Tensors inputs;                     // that the graph reads
  std::optional<int64_t> first_step;  // that was captured, where steps are numbered
  Tensors outputs;
  GraphExec exec;
};

StepGraph::StepGraph(Device device, int warm_up)
    : StepGraph(std::vector<Device>{device}, warm_up) {}

StepGraph::StepGraph(std::vector<Device> devices, int warm_up)
    : devices_(std::move(devices)), warm_up_(warm_up) {
  HEDDLE_CHECK(!devices_.empty(), "StepGraph: no devices, expected at least one");
  for (const Device device : devices_) {
    HEDDLE_CHECK(device.type == DeviceType::kCuda, "StepGraph: {} has no graphs, expected cuda:N",
                 device.to_string());
    HEDDLE_CHECK(std::count(devices_.begin(), devices_.end(), device) == 1,
                 "StepGraph: {} is given more than once", device.to_string());
  }
  HEDDLE_CHECK(warm_up >= 1, "StepGraph: warm_up is {}, expected at least 1", warm_up);
}

StepGraph::~StepGraph() {
  for (const auto& entry : entries_) {
    if (entry->exec.get() == nullptr) continue;
    for (const StreamRef stream : streams()) HEDDLE_CUDA_WARN(cudaStreamSynchronize(stream.get()));
  }
}

std::vector<StreamRef> StepGraph::streams() const {
  std::vector<StreamRef> result;
  for (const Device device : devices_) result.push_back(current_stream(device));
  return result;
}

void StepGraph::check_devices(const Tensors& inputs) const {
  for (const Tensor& input : inputs) {
    if (std::find(devices_.begin(), devices_.end(), input.device()) != devices_.end()) continue;
    std::string names;
    for (const Device device : devices_) names += (names.empty() ? "" : ", ") + device.to_string();
    fail("StepGraph: an input is on {}, expected {}", input.device().to_string(), names);
  }
}

StepGraph::Entry& StepGraph::entry_for(const Tensors& inputs) {
  const auto fits = [](const Form& form, const Tensor& input) { return form.fits(input); };
  for (const auto& entry : entries_)
    if (std::equal(entry->forms.begin(), entry->forms.end(), inputs.begin(), inputs.end(), fits))
      return *entry;
  Entry& entry = *entries_.emplace_back(std::make_unique<Entry>());
  entry.parts.resize(devices_.size());
  for (const Tensor& input : inputs)
    entry.forms.push_back({input.device(), input.shape(), input.strides(), input.dtype()});
  return entry;
}

StepGraph::Tensors StepGraph::run(const Tensors& inputs, const Body& body,
                                  std::optional<int64_t> step) {
  check_devices(inputs);
  const DeviceGuard guard(devices_.front());
  Entry& entry = entry_for(inputs);
  if (entry.runs < warm_up_) return warm_up_run(entry, inputs, body);
  if (entry.exec.get() == nullptr) {
    capture(entry, inputs, body, step);
  } else {
    prepare_replay(entry, inputs, step);
  }
  launch(entry);
  ++replays_;
  return entry.outputs;
}

/// A graph waits for what its own stream has queued alone.
void StepGraph::launch(const Entry& entry) const {
  const std::vector<StreamRef> all = streams();
  const StreamRef first = all.front();
  for (const StreamRef stream : all) first.wait(stream);
  HEDDLE_CUDA_CHECK(cudaGraphLaunch(entry.exec.get(), first.get()));
  for (const StreamRef stream : all) stream.wait(first);
}

StepGraph::Tensors StepGraph::warm_up_run(Entry& entry, const Tensors& inputs, const Body& body) {
  std::vector<int64_t> before;
  for (const Device device : devices_) {
    memory::reset_peak(device);
    before.push_back(memory::stats(device).in_use);
  }
  Tensors outputs = body(inputs);
  for (size_t i = 0; i < devices_.size(); ++i) {
    const int64_t taken = memory::stats(devices_[i]).peak_in_use - before[i];
    int64_t& needed = entry.parts[i].needed;
    needed = std::max(needed, taken + taken / 8);
  }
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
  if (!step) return;
  for (Part& part : entry.parts) fill_(part.steps, static_cast<double>(*step - *entry.first_step));
}

void StepGraph::capture(Entry& entry, const Tensors& inputs, const Body& body,
                        std::optional<int64_t> step) try {
  {
    const NoGradGuard no_grad;
    entry.inputs.clear();  // of a capture that failed
    for (const Tensor& input : inputs) entry.inputs.push_back(clone(input.detach()));
    entry.first_step = step;
    for (size_t i = 0; i < devices_.size(); ++i) {
      Part& part = entry.parts[i];
      part.bytes = std::max(kLeastArena, part.needed);
      if (step) part.steps = zeros({}, DType::kInt64, devices_[i]);
    }
  }
  for (int tries = 1; !try_capture(entry, body); ++tries) {
    for (size_t i = 0; i < devices_.size(); ++i) {
      Part& part = entry.parts[i];
      if (!part.arenas.back()->is_full()) continue;
      HEDDLE_CHECK(tries < kTries,
                   "StepGraph: {} bytes of {} do not hold the step, {} were expected to",
                   part.bytes, devices_[i].to_string(), part.needed);
      part.bytes *= 2;
    }
  }
} catch (const Error& error) {
  throw CaptureError(fmt::format("the step cannot be captured as a graph: {}", error.what()));
}

/// False where an arena is too small.
bool StepGraph::try_capture(Entry& entry, const Body& body) {
  const std::vector<StreamRef> all = streams();
  CaptureArena::Set arenas;
  for (size_t i = 0; i < all.size(); ++i) {
    Part& part = entry.parts[i];
    part.arenas.push_back(std::make_unique<CaptureArena>(part.bytes, all[i]));
    arenas.push_back(part.arenas.back().get());
    if (part.steps.defined()) arenas.back()->set_steps(part.steps.data<int64_t>());
  }
  const CaptureArena::Scope scope(arenas);
  Capture capture(all);
  try {
    entry.outputs = body(entry.inputs);
  } catch (const Error&) {
    const auto is_full = [](const CaptureArena* arena) { return arena->is_full(); };
    if (std::none_of(arenas.begin(), arenas.end(), is_full)) throw;
    return false;
  }
  const Graph graph = capture.end();
  cudaGraphExec_t exec = nullptr;
  HEDDLE_CUDA_CHECK(cudaGraphInstantiate(&exec, graph.get(), 0));
  entry.exec = GraphExec(exec);
  return true;
}

}  // namespace heddle
