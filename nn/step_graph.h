#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "heddle/core/tensor.h"

namespace heddle {

/// A step that cannot be captured. Nothing of it has run: it may be called instead.
class CaptureError : public Error {
 public:
  using Error::Error;
};

/// A training step that is captured as a CUDA graph and replayed: one launch in place of hundreds.
/// run(inputs, body) calls body(inputs) the first `warm_up` times for inputs of the same shapes,
/// then captures it over inputs of its own, with activations in arenas sized by the warm-up, and
/// replays it from then on. The results are those of calling it.
///
/// With several devices one graph holds the work of all: what body queues in their current streams,
/// and in others that wait for these and that these wait for again (so does DataParallel's). Each
/// input lies on one of them. Copies between devices are captured as an Exchange makes them, not as
/// to() does.
///
/// What body does on the host happens in the warm-up and at the capture alone; what changes from
/// step to step must be read from device memory (Optimizer::begin_step and finish_step stand
/// outside, check_gradients and apply_step inside; GradScaler::scale reads its scale there). Body
/// must not wait for a device (item(), to_vector()). Dropout draws by the number of the step: it
/// is captured only where run() is given that number, and body passes it on (Module::set_step). The
/// tensors that run() gives are overwritten by the next run; they, gradients included, must not
/// outlive the graph. In builds with CUDA alone.
/// Errors: those of body in the warm-up; CaptureError where something in it cannot be captured.
class StepGraph {
 public:
  using Tensors = std::vector<Tensor>;
  using Body = std::function<Tensors(const Tensors& inputs)>;

  explicit StepGraph(Device device, int warm_up = 2);
  /// Different devices; graphs are launched in the stream of the first.
  explicit StepGraph(std::vector<Device> devices, int warm_up = 2);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  Tensors run(const Tensors& inputs, const Body& body, std::optional<int64_t> step = {});
  int64_t replays() const { return replays_; }  ///< Launches of graphs so far.

 private:
  struct Entry;
  void check_devices(const Tensors& inputs) const;
  Entry& entry_for(const Tensors& inputs);
  Tensors warm_up_run(Entry& entry, const Tensors& inputs, const Body& body);
  void capture(Entry& entry, const Tensors& inputs, const Body& body, std::optional<int64_t> step);
  void prepare_replay(Entry& entry, const Tensors& inputs, std::optional<int64_t> step) const;
  bool try_capture(Entry& entry, const Body& body);
  void launch(const Entry& entry) const;
  std::vector<StreamRef> streams() const;

  std::vector<Device> devices_;
  int warm_up_;
  int64_t replays_ = 0;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace heddle
