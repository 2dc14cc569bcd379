#pragma once

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
  /// Sees to it that the next step() takes the gradients as if their common norm were at most
  /// `max_norm` (PyTorch's factor, max_norm / (norm + 1e-6)), without a pass to scale them.
  /// Returns the norm. Errors: max_norm is not above 0.
  double clip_grad_norm(double max_norm);
  bool gradients_finite() const;  ///< False where a gradient has a NaN or an infinity.

  /// All learning rates are multiplied by it: what a Schedule gives. Units: none.
  void set_lr_scale(double scale) { lr_scale_ = scale; }
  double lr(int64_t group = 0) const;  ///< The rate in force, scale included.
  int64_t steps() const;               ///< The most updates that a parameter has had.

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
  virtual void update(size_t group, std::span<const ParamSlot> slots, double grad_scale) = 0;
  double lr_scale() const { return lr_scale_; }
  Device device() const;  ///< Of all parameters.

 private:
  struct Slot {
    Tensor parameter;
    std::vector<Tensor> moments;
    int64_t step = 0;
  };

  void check_parameters() const;
  void fill_slots(std::vector<Slot>& group, std::vector<ParamSlot>& slots,
                  std::vector<Tensor>& gradients) const;
  template <class Groups, class Visit>
  void for_each_state(Groups& groups, Visit visit) const;

  std::string name_;
  std::vector<std::string> moment_names_;
  std::vector<std::vector<Slot>> groups_;
  std::vector<ParamSlot> kernel_slots_;
  double lr_scale_ = 1.0;
  double grad_scale_ = 1.0;
};

/// The norm of all gradients taken as one vector. Undefined gradients count nothing.
double grad_norm(const std::vector<Tensor>& parameters);

/// Scales all gradients in place so that their common norm is at most `max_norm`; returns the norm
/// from before, as PyTorch does. Optimizer::clip_grad_norm saves the pass.
double clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm);

}  // namespace heddle
