#include "heddle/nn/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "heddle/core/kept_cast.h"
#include "heddle/core/tape.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/reduce.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

DType state_dtype(DType parameter) {
  return parameter == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

Tensor zeros_in_order_of(const Tensor& parameter) {
  Tensor moment = Tensor::empty_like(parameter, state_dtype(parameter.dtype()));
  fill_(moment, 0.0);
  return moment;
}

double norm_of(std::span<const ParamSlot> slots, Device device) {
  const Tensor squares = Tensor::empty({}, DType::kFloat64, MemoryFormat::kContiguous, device);
  HEDDLE_DISPATCH(device, gradient_squares, GradientSquaresArgs{slots, squares.data<double>()});
  return std::sqrt(squares.item());
}

double clip_factor(double norm, double max_norm) {
  HEDDLE_CHECK(max_norm > 0.0, "clip_grad_norm: max_norm is {}, expected above 0", max_norm);
  return std::min(1.0, max_norm / (norm + kClipEpsilon));
}

/// The gradients alone, as kernels take them. `gradients` keeps them alive.
std::vector<ParamSlot> gradient_slots(const std::vector<Tensor>& parameters,
                                      std::vector<Tensor>& gradients) {
  std::vector<ParamSlot> slots;
  for (const Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const Tensor& gradient = gradients.emplace_back(dense(parameter.grad()));
    slots.push_back({.g = gradient.raw_data(), .n = gradient.numel(), .dtype = gradient.dtype()});
  }
  return slots;
}

}  // namespace

Optimizer::Optimizer(std::string name, std::vector<std::vector<Tensor>> groups,
                     std::vector<std::string> moments)
    : name_(std::move(name)), moment_names_(std::move(moments)) {
  const NoGradGuard no_grad;
  for (const std::vector<Tensor>& parameters : groups) {
    std::vector<Slot>& slots = groups_.emplace_back();
    for (const Tensor& parameter : parameters) slots.emplace_back().parameter = parameter;
  }
  check_parameters();
  for (std::vector<Slot>& group : groups_)
    for (Slot& slot : group)
      for (size_t i = 0; i < moment_names_.size(); ++i)
        slot.moments.push_back(zeros_in_order_of(slot.parameter));
}

void Optimizer::check_parameters() const {
  std::vector<const void*> seen;
  for (const std::vector<Slot>& group : groups_) {
    for (const Slot& slot : group) {
      HEDDLE_CHECK(
          slot.parameter.defined() && slot.parameter.is_leaf() && slot.parameter.requires_grad(),
          "{}: parameter {} is not a leaf that requires grad", name_, seen.size());
      HEDDLE_CHECK(slot.parameter.device() == device(),
                   "{}: parameters are on {} and {}, expected one device", name_,
                   device().to_string(), slot.parameter.device().to_string());
      seen.push_back(slot.parameter.raw_data());
    }
  }
  HEDDLE_CHECK(!seen.empty(), "{}: no parameters", name_);
  std::sort(seen.begin(), seen.end());
  HEDDLE_CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end(),
               "{}: a parameter is there twice", name_);
}

Device Optimizer::device() const {
  for (const std::vector<Slot>& group : groups_)
    if (!group.empty()) return group.front().parameter.device();
  return Device::cpu();
}

void Optimizer::fill_slots(std::vector<Slot>& group, std::vector<ParamSlot>& slots,
                           std::vector<Tensor>& gradients, int64_t counted_from) const {
  for (Slot& slot : group) {
    const Tensor gradient = slot.parameter.grad();
    if (!gradient.defined()) continue;
    gradients.push_back(in_layout_of(slot.parameter, gradient));
    ParamSlot kernel_slot{.p = slot.parameter.raw_data(),
                          .g = gradients.back().raw_data(),
                          .n = slot.parameter.numel(),
                          .dtype = slot.parameter.dtype(),
                          .step = slot.step + 1 - counted_from};
    if (!slot.moments.empty()) kernel_slot.m = slot.moments[0].raw_data();
    if (slot.moments.size() > 1) kernel_slot.v = slot.moments[1].raw_data();
    slot.cast = take_cast(slot.parameter);
    if (slot.cast.defined()) {
      kernel_slot.p_cast = slot.cast.raw_data();
      kernel_slot.cast_dtype = slot.cast.dtype();
    }
    slots.push_back(kernel_slot);
    slot.parameter.bump_version();
  }
}

void Optimizer::update_all(const StepFactors& factors) {
  const NoGradGuard no_grad;
  // The device's own count is added: what is captured holds for every later step.
  const int64_t counted_from = factors.control == nullptr ? 0 : steps();
  for (size_t group = 0; group < groups_.size(); ++group) {
    std::vector<Tensor> gradients;  // holds what was copied to another order
    kernel_slots_.clear();
    fill_slots(groups_[group], kernel_slots_, gradients, counted_from);
    if (!kernel_slots_.empty()) update(group, kernel_slots_, factors);
    for (Slot& slot : groups_[group])
      if (slot.cast.defined()) keep_cast(slot.parameter, std::exchange(slot.cast, {}));
  }
}

void Optimizer::count_step() {
  for (std::vector<Slot>& group : groups_)
    for (Slot& slot : group)
      if (slot.parameter.grad().defined()) ++slot.step;
}

void Optimizer::step() {
  update_all({.lr_scale = lr_scale_, .grad_scale = grad_scale_});
  count_step();
  grad_scale_ = 1.0;
}

StepControl* Optimizer::control() {
  constexpr int64_t kBytes = sizeof(StepControl);
  if (!control_.defined()) {
    control_ = Tensor::empty({kBytes}, DType::kUInt8, MemoryFormat::kContiguous, device());
    host_control_ = pinned_storage(kBytes);
  }
  return static_cast<StepControl*>(control_.raw_data());
}

void Optimizer::begin_step(double grad_scale) {
  StepControl* target = control();
  *static_cast<StepControl*>(host_control_->data()) = {
      .lr_scale = lr_scale_, .grad_scale = grad_scale * grad_scale_, .steps = steps()};
  grad_scale_ = 1.0;
  // finish_step() of the step before has waited for the device: nothing reads the host's copy.
  memory::copy(target, device(), host_control_->data(), Device::cpu(), sizeof(StepControl),
               /*wait=*/false);
}

void Optimizer::check_gradients(double max_norm) {
  const NoGradGuard no_grad;
  std::vector<Tensor> gradients;
  const std::vector<ParamSlot> slots = gradient_slots(parameters(), gradients);
  const bool clips = max_norm > 0.0;
  // The sum of squares is finite exactly where all gradients are: one pass does for both.
  const Tensor squares = Tensor::empty({}, DType::kFloat64, MemoryFormat::kContiguous, device());
  const Tensor finite = Tensor::empty({}, DType::kUInt8, MemoryFormat::kContiguous, device());
  PrepareStepArgs args{.control = control(), .max_norm = max_norm};
  if (clips) {
    args.squares = squares.data<double>();
    HEDDLE_DISPATCH(device(), gradient_squares, GradientSquaresArgs{slots, squares.data<double>()});
  } else {
    bool* verdict = static_cast<bool*>(finite.raw_data());
    args.finite = verdict;
    HEDDLE_DISPATCH(device(), gradients_finite, GradientsFiniteArgs{slots, verdict});
  }
  HEDDLE_DISPATCH(device(), prepare_step, args);
}

void Optimizer::check_loss(const Tensor& loss) {
  HEDDLE_CHECK(loss.numel() == 1 && loss.device() == device(),
               "{} check_loss: loss has shape {} and is on {}, expected one number on {}", name_,
               loss.shape(), loss.device().to_string(), device().to_string());
  const Tensor finite = Tensor::empty({}, DType::kUInt8, MemoryFormat::kContiguous, device());
  bool* verdict = static_cast<bool*>(finite.raw_data());
  HEDDLE_DISPATCH(device(), all_finite, {verdict, loss.raw_data(), 1, loss.dtype()});
  HEDDLE_DISPATCH(device(), prepare_step, PrepareStepArgs{.control = control(), .finite = verdict});
}

void Optimizer::apply_step() { update_all({.control = control()}); }

Tensor Optimizer::found_inf() {
  (void)control();
  constexpr auto kPlace = static_cast<int64_t>(offsetof(StepControl, found_inf) / sizeof(float));
  return Tensor::from_storage(control_.storage(), {}, {}, kPlace, DType::kFloat32);
}

bool Optimizer::finish_step() {
  const bool taken = !(found_inf().item() > 0.0);
  if (taken) count_step();
  return taken;
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> parameters;
  for (const std::vector<Slot>& group : groups_)
    for (const Slot& slot : group) parameters.push_back(slot.parameter);
  return parameters;
}

void Optimizer::zero_grad() {
  for (const std::vector<Slot>& group : groups_)
    for (const Slot& slot : group) slot.parameter.set_grad({});
}

double Optimizer::clip_grad_norm(double max_norm) {
  const double norm = grad_norm(parameters());
  grad_scale_ = clip_factor(norm, max_norm);
  return norm;
}

bool Optimizer::gradients_finite() const {
  std::vector<Tensor> gradients;
  const std::vector<ParamSlot> slots = gradient_slots(parameters(), gradients);
  const Tensor finite = Tensor::empty({}, DType::kUInt8, MemoryFormat::kContiguous, device());
  HEDDLE_DISPATCH(device(), gradients_finite,
                  GradientsFiniteArgs{slots, static_cast<bool*>(finite.raw_data())});
  return finite.item() != 0.0;
}

double Optimizer::lr(int64_t group) const {
  HEDDLE_CHECK(group >= 0 && static_cast<size_t>(group) < groups_.size(),
               "{}: group {} of {} groups", name_, group, groups_.size());
  return base_lr(static_cast<size_t>(group)) * lr_scale_;
}

int64_t Optimizer::steps() const {
  int64_t most = 0;
  for (const std::vector<Slot>& group : groups_)
    for (const Slot& slot : group) most = std::max(most, slot.step);
  return most;
}

/// Visits (name, moment, slot) with moment -1 for the count of steps.
template <class Groups, class Visit>
void Optimizer::for_each_state(Groups& groups, Visit visit) const {
  int64_t number = 0;
  for (auto& group : groups) {
    for (auto& slot : group) {
      const std::string& name = slot.parameter.name();
      const std::string key = name.empty() ? std::to_string(number) : name;
      for (size_t i = 0; i < moment_names_.size(); ++i)
        visit(moment_names_[i] + "/" + key, static_cast<int>(i), slot);
      visit("step/" + key, -1, slot);
      ++number;
    }
  }
}

NamedTensors Optimizer::state() const {
  NamedTensors result;
  for_each_state(groups_, [&](const std::string& name, int moment, const Slot& slot) {
    result.emplace_back(name, moment < 0 ? Tensor::from<int64_t>({slot.step}, {})
                                         : state_tensor(slot.moments[static_cast<size_t>(moment)]));
  });
  return result;
}

void Optimizer::check_state(const NamedTensors& state) const {
  std::vector<StateSpec> expected;
  for_each_state(groups_, [&](const std::string& name, int moment, const Slot& slot) {
    if (moment < 0) return expected.push_back({name, DType::kInt64, {}});
    const Tensor& tensor = slot.moments[static_cast<size_t>(moment)];
    expected.push_back({name, tensor.dtype(), tensor.shape()});
  });
  heddle::check_state(name_ + " load_state", expected, state);
  for (const auto& [name, tensor] : state)
    if (name.starts_with("step/") && tensor.item() < 0.0)
      fail("{} load_state: {} is {}, expected at least 0", name_, name, tensor.item());
}

void Optimizer::load_state(const NamedTensors& state) {
  check_state(state);
  std::map<std::string_view, const Tensor*> by_name;
  for (const auto& [name, tensor] : state) by_name[name] = &tensor;
  for_each_state(groups_, [&](const std::string& name, int moment, Slot& slot) {
    const Tensor& source = *by_name.at(name);
    if (moment < 0)
      slot.step = source.to_vector<int64_t>()[0];
    else
      load_tensor(slot.moments[static_cast<size_t>(moment)], source);
  });
}

double grad_norm(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  const std::vector<ParamSlot> slots = gradient_slots(parameters, gradients);
  return slots.empty() ? 0.0 : norm_of(slots, gradients.front().device());
}

double clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm) {
  const double norm = grad_norm(parameters);
  const double factor = clip_factor(norm, max_norm);
  if (factor == 1.0) return norm;
  const NoGradGuard no_grad;
  for (const Tensor& parameter : parameters) {
    Tensor gradient = parameter.grad();
    if (gradient.defined()) mul_(gradient, factor);
  }
  return norm;
}

}  // namespace heddle
