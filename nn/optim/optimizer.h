#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/kernels/optimizer.h"
#include "heddle/nn/state.h"

namespace heddle {

/// Parameters that share options: `Sgd sgd({{backbone, {.lr = 0.01}}, {head, {.lr = 0.1}}})`.
template <class Options>
struct ParameterGroup {
  std::vector<Tensor> parameters;
  Options options;
};

/// Moves parameters along their gradients. A parameter without a gradient is left as it is, and
/// its own count of updates with it, as in PyTorch.
/// Errors: no parameters, one given twice, one that is not a leaf that requires grad, or parameters
/// on several devices.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  void step();
  void zero_grad();

  /// step() in four parts, for steps that are skipped where a gradient is not finite, and for those
  /// that a CUDA graph replays (nn/amp, nn/step_graph.h): begin_step, check_gradients, apply_step,
  /// finish_step. Those between queue work and wait for nothing; they are what is captured.
  /// begin_step writes what this step is (rate, scale, count) to the device, from where they read
  /// it. Gradients are multiplied by `grad_scale`, before their norm is clipped.
  void begin_step(double grad_scale = 1.0);
  /// Sets found_inf where a gradient is not finite; clips their norm where max_norm is above 0.
  void check_gradients(double max_norm = 0.0);
  /// Sets found_inf where the loss, one number on the optimizer's device, is not finite.
  void check_loss(const Tensor& loss);
  void apply_step();   ///< Does nothing where found_inf is above 0.
  bool finish_step();  ///< Reads found_inf. True where the step was taken, which is then counted.
  /// One float32 on the optimizer's device, above 0 where this step is to be skipped. Whoever has
  /// several replicas whose gradients may differ adds theirs up between check_gradients and
  /// apply_step.
  Tensor found_inf();

  /// Sees to it that the next step() takes the gradients as if their common norm were at most
  /// `max_norm` (PyTorch's factor, max_norm / (norm + 1e-6)), without a pass to scale them.
  /// Returns the norm. Errors: max_norm is not above 0.
  double clip_grad_norm(double max_norm);
  bool gradients_finite() const;  ///< False where a gradient has a NaN or an infinity.

  /// All learning rates are multiplied by it: what a Schedule gives. Units: none.
  void set_lr_scale(double scale) { lr_scale_ = scale; }
  double lr(int64_t group = 0) const;  ///< The rate in force, scale included.
  int64_t steps() const;               ///< The most updates that a parameter has had.
  Device device() const;               ///< Of all parameters.
  std::vector<Tensor> parameters() const;

  /// Moments and counts, as "exp_avg/conv1.weight", row-major. Complete from the start: a fresh
  /// optimizer has all of its slots, filled with zeros.
  NamedTensors state() const;
  void load_state(const NamedTensors& state);  ///< Errors: as Module::load_state.
  void check_state(const NamedTensors& state) const;

 protected:
  /// `moments` names the tensors that each parameter needs, at most two.
  Optimizer(std::string name, std::vector<std::vector<Tensor>> groups,
            std::vector<std::string> moments);
  virtual double base_lr(size_t group) const = 0;
  /// What all groups of a step have in common.
  struct StepFactors {
    double lr_scale = 1.0;
    double grad_scale = 1.0;
    const StepControl* control = nullptr;
  };
  virtual void update(size_t group, std::span<const ParamSlot> slots,
                      const StepFactors& factors) = 0;

 private:
  struct Slot {
    Tensor parameter;
    std::vector<Tensor> moments;
    int64_t step = 0;
    Tensor cast;  // while it is updated: what autocast reads of the parameter
  };

  void check_parameters() const;
  void fill_slots(std::vector<Slot>& group, std::vector<ParamSlot>& slots,
                  std::vector<Tensor>& gradients, int64_t counted_from) const;
  void update_all(const StepFactors& factors);
  void count_step();
  StepControl* control();
  template <class Groups, class Visit>
  void for_each_state(Groups& groups, Visit visit) const;

  std::string name_;
  std::vector<std::string> moment_names_;
  std::vector<std::vector<Slot>> groups_;
  std::vector<ParamSlot> kernel_slots_;
  double lr_scale_ = 1.0;
  double grad_scale_ = 1.0;
  Tensor control_;                         // a StepControl on the device
  std::shared_ptr<Storage> host_control_;  // that it is copied from
};

/// The norm of all gradients taken as one vector. Undefined gradients count nothing.
double grad_norm(const std::vector<Tensor>& parameters);

/// Scales all gradients in place so that their common norm is at most `max_norm`; returns the norm
/// from before, as PyTorch does. Optimizer::clip_grad_norm saves the pass.
double clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm);

}  // namespace heddle
