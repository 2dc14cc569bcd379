#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "heddle/nn/amp/grad_scaler.h"
#include "heddle/nn/optim/optimizer.h"
#include "heddle/parallel/data_parallel.h"

namespace heddle {

/// An optimizer for each replica of a DataParallel, which all do the same:
///
///     ReplicatedOptimizer adam(parallel, [](const Module& replica) {
///       return std::make_unique<Adam>(replica.parameters(), AdamOptions{.lr = 1e-3});
///     });
///
/// So weights stay alike bit for bit without being sent. `parallel` outlives it.
class ReplicatedOptimizer {
 public:
  using Factory = std::function<std::unique_ptr<Optimizer>(const Module& replica)>;
  ReplicatedOptimizer(DataParallel& parallel, const Factory& make);
  /// With `first`, which outlives this, for replica 0; the others begin as copies of it.
  ReplicatedOptimizer(DataParallel& parallel, Optimizer& first, const Factory& make);

  void step();
  /// As GradScaler::step, on gradients of a loss times scaler.get_scale(). All replicas find the
  /// same, since their gradients have the same bits.
  bool step(GradScaler& scaler, double max_norm = 0.0);

  /// step() in Optimizer's parts, for steps that a graph replays: begin_step and finish_step stand
  /// outside. begin_step hands round what replica 0 alone was given since the last step, too.
  void begin_step(double grad_scale = 1.0);
  void check_gradients(double max_norm = 0.0);
  void check_losses(const std::vector<Tensor>& mean_losses);  ///< Those of DataParallel::Queued.
  void apply_step();
  /// Errors: replicas that do not agree whether the step was taken.
  bool finish_step();
  void zero_grad();
  double clip_grad_norm(double max_norm);  ///< As Optimizer's; the norm is that of the whole batch.
  void set_lr_scale(double scale);
  double lr() const { return of(0).lr(); }
  NamedTensors state() const { return of(0).state(); }
  void load_state(const NamedTensors& state);

 private:
  bool agreed(const std::vector<int>& taken) const;
  Optimizer& of(int replica) const { return *optimizers_[static_cast<size_t>(replica)]; }

  DataParallel& parallel_;
  std::vector<std::unique_ptr<Optimizer>> owned_;
  std::vector<Optimizer*> optimizers_;  // by replica
};

}  // namespace heddle
