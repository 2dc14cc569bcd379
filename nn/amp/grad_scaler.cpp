#include "heddle/nn/amp/grad_scaler.h"

#include <algorithm>
#include <cmath>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"

namespace heddle {

GradScaler::GradScaler(GradScalerOptions options)
    : options_(options), state_{.scale = options.init_scale} {
  const GradScalerOptions& o = options_;
  HEDDLE_CHECK(o.growth_factor > 1.0 && std::isfinite(o.growth_factor),
               "GradScaler: growth_factor is {}, expected above 1", o.growth_factor);
  HEDDLE_CHECK(o.backoff_factor > 0.0 && o.backoff_factor < 1.0,
               "GradScaler: backoff_factor is {}, expected between 0 and 1", o.backoff_factor);
  HEDDLE_CHECK(o.growth_interval >= 1 && o.max_skips >= 1,
               "GradScaler: growth_interval is {} and max_skips {}, expected at least 1",
               o.growth_interval, o.max_skips);
  HEDDLE_CHECK(o.min_scale > 0.0 && o.min_scale <= o.init_scale && o.init_scale <= o.max_scale &&
                   std::isfinite(o.max_scale),
               "GradScaler: min_scale, init_scale and max_scale are {}, {} and {}, expected in "
               "order, above 0 and finite",
               o.min_scale, o.init_scale, o.max_scale);
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!options_.enabled) return loss;
  return to(loss, DType::kFloat32) * scale_on(loss.device());
}

Tensor GradScaler::scale_on(Device device) {
  const auto found = std::find_if(scales_.begin(), scales_.end(),
                                  [&](const Tensor& t) { return t.device() == device; });
  if (found != scales_.end()) return *found;
  return scales_.emplace_back(full({}, get_scale(), DType::kFloat32, device));
}

GradScaler::Use* GradScaler::use_of(const Optimizer& optimizer) {
  const auto found = std::find_if(uses_.begin(), uses_.end(),
                                  [&](const Use& use) { return use.optimizer == &optimizer; });
  return found == uses_.end() ? nullptr : &*found;
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  const Use* use = use_of(optimizer);
  HEDDLE_CHECK(use == nullptr,
               "GradScaler unscale_: called after {} for this optimizer, expected once between "
               "backward and step",
               use->stage == Stage::kUnscaled ? "unscale_" : "step");
  const NoGradGuard no_grad;
  for (const Tensor& parameter : optimizer.parameters()) {
    Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    HEDDLE_CHECK(gradient.dtype() != DType::kFloat16,
                 "GradScaler unscale_: a gradient is float16, expected float32 parameters");
    mul_(gradient, 1.0 / state_.scale);
  }
  uses_.push_back({&optimizer, Stage::kUnscaled});
}

bool GradScaler::step(Optimizer& optimizer, double max_norm) {
  if (!options_.enabled) {
    if (max_norm > 0.0) optimizer.clip_grad_norm(max_norm);
    optimizer.step();
    return true;
  }
  Use* use = use_of(optimizer);
  HEDDLE_CHECK(use == nullptr || use->stage == Stage::kUnscaled,
               "GradScaler step: called twice for this optimizer, expected update() between");
  optimizer.begin_step(use != nullptr ? 1.0 : 1.0 / state_.scale);
  optimizer.check_gradients(max_norm);
  optimizer.apply_step();
  const bool taken = optimizer.finish_step();
  if (use != nullptr)
    use->stage = Stage::kStepped;
  else
    uses_.push_back({&optimizer, Stage::kStepped});
  note_step(taken);
  return taken;
}

void GradScaler::note_step(bool taken) {
  stepped_ = true;
  skipped_ = skipped_ || !taken;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  HEDDLE_CHECK(stepped_, "GradScaler update: no step since the last update()");
  if (skipped_) {
    ++state_.skips;
    state_.growth_tracker = 0;
    set_scale(std::max(options_.min_scale, state_.scale * options_.backoff_factor));
  } else {
    state_.skips = 0;
    if (++state_.growth_tracker >= options_.growth_interval) {
      state_.growth_tracker = 0;
      set_scale(std::min(options_.max_scale, state_.scale * options_.growth_factor));
    }
  }
  uses_.clear();
  stepped_ = skipped_ = false;
}

void GradScaler::set_scale(double scale) {
  state_.scale = scale;
  for (Tensor& on_device : scales_) fill_(on_device, get_scale());
}

void GradScaler::load_state(const GradScalerState& state) {
  HEDDLE_CHECK(state.scale > 0.0 && std::isfinite(state.scale),
               "GradScaler load_state: scale is {}, expected above 0 and finite", state.scale);
  HEDDLE_CHECK(state.growth_tracker >= 0 && state.skips >= 0,
               "GradScaler load_state: growth_tracker is {} and skips {}, expected at least 0",
               state.growth_tracker, state.skips);
  state_ = state;
  set_scale(state.scale);
}

}  // namespace heddle
