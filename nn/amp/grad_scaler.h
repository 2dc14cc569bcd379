#pragma once

#include <vector>

#include "heddle/nn/optim/optimizer.h"

namespace heddle {

/// PyTorch's defaults, where PyTorch has the option.
struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  ///< Units: steps without a skip.
  double min_scale = 1.0;          ///< The scale never falls below it.
  double max_scale = 16777216.0;   ///< 2^24; nor rises above it.
  /// Skips in a row after which stuck() is true. From the highest scale 24 halvings lead to the
  /// lowest; whoever still overflows there has a fault that no scale mends.
  int64_t max_skips = 32;
  bool enabled = true;  ///< False: everything passes through.
};

/// What a checkpoint keeps of a GradScaler.
struct GradScalerState {
  double scale = 0.0;
  int64_t growth_tracker = 0;  ///< Steps since the scale moved.
  int64_t skips = 0;           ///< Steps skipped in a row.
  bool operator==(const GradScalerState&) const = default;
};

/// Keeps float16 gradients inside of float16's range: the loss is multiplied by a scale, the
/// gradients are divided by it, a step with a gradient that is not finite is skipped and the scale
/// halved, and after 2000 good steps it is doubled. As PyTorch's GradScaler, in this order:
///
///     scaler.scale(loss).backward();
///     scaler.unscale_(optimizer);  // only where gradients are looked at or clipped by hand
///     const bool taken = scaler.step(optimizer);
///     scaler.update();
///
/// A skipped step changes no parameter, moment or count; do not advance a schedule then. The check
/// and the update are queued on the device, and then the host reads one number. Replicas that step
/// with the same (reduced) gradients find the same; others add up Optimizer::found_inf().
/// Errors: options out of order; calls out of order, named.
class GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});

  /// loss * scale, in float32. The scale is read from memory of the loss's device.
  Tensor scale(const Tensor& loss);
  /// The scale as one float32 on `device`, for as long as this lives: 1 where not enabled.
  Tensor scale_on(Device device);
  /// Divides the gradients by the scale, in place.
  void unscale_(Optimizer& optimizer);
  /// Takes the optimizer's step with gradients divided by the scale (no pass of its own unless
  /// unscale_ was called), clipped to `max_norm` after that where it is above 0. False: skipped.
  bool step(Optimizer& optimizer, double max_norm = 0.0);
  /// Moves the scale by what the steps since the last update() have found.
  void update();

  double get_scale() const { return options_.enabled ? state_.scale : 1.0; }
  int64_t skips_in_a_row() const { return state_.skips; }
  /// True after max_skips skips in a row: lower scales do not help, the run should end.
  bool stuck() const { return state_.skips >= options_.max_skips; }
  const GradScalerOptions& options() const { return options_; }

  const GradScalerState& state() const { return state_; }
  /// Errors: a scale that is not above 0 and finite; a negative count.
  void load_state(const GradScalerState& state);

  /// For steps that a graph replays, where Optimizer's four calls take the place of step(): what
  /// finish_step() gave.
  void note_step(bool taken);

 private:
  enum class Stage { kUnscaled, kStepped };
  struct Use {
    const Optimizer* optimizer;
    Stage stage;
  };

  Use* use_of(const Optimizer& optimizer);
  void set_scale(double scale);

  GradScalerOptions options_;
  GradScalerState state_;
  std::vector<Tensor> scales_;  // one number on each device that asked
  std::vector<Use> uses_;       // since the last update()
  bool stepped_ = false;
  bool skipped_ = false;
};

}  // namespace heddle
