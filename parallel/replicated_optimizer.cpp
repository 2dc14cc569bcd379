#include "heddle/parallel/replicated_optimizer.h"

#include <algorithm>

namespace heddle {

ReplicatedOptimizer::ReplicatedOptimizer(DataParallel& parallel, const Factory& make)
    : parallel_(parallel) {
  for (int i = 0; i < parallel.size(); ++i)
    optimizers_.push_back(owned_.emplace_back(make(parallel.replica(i))).get());
}

ReplicatedOptimizer::ReplicatedOptimizer(DataParallel& parallel, Optimizer& first,
                                         const Factory& make)
    : parallel_(parallel), optimizers_{&first} {
  for (int i = 1; i < parallel.size(); ++i) {
    optimizers_.push_back(owned_.emplace_back(make(parallel.replica(i))).get());
    optimizers_.back()->load_state(first.state());
  }
}

void ReplicatedOptimizer::step() {
  parallel_.for_each_replica([this](int index, Module&) { of(index).step(); });
}

bool ReplicatedOptimizer::step(GradScaler& scaler, double max_norm) {
  std::vector<int> taken(optimizers_.size());
  parallel_.for_each_replica([&](int index, Module&) {
    Optimizer& optimizer = of(index);
    optimizer.begin_step(1.0 / scaler.get_scale());
    optimizer.check_gradients(max_norm);
    optimizer.apply_step();
    taken[static_cast<size_t>(index)] = optimizer.finish_step() ? 1 : 0;
  });
  const bool all_taken = agreed(taken);
  scaler.note_step(all_taken);
  return all_taken;
}

bool ReplicatedOptimizer::agreed(const std::vector<int>& taken) const {
  const auto n_taken = std::count(taken.begin(), taken.end(), 1);
  HEDDLE_CHECK(n_taken == 0 || n_taken == parallel_.size(),
               "ReplicatedOptimizer step: {} of {} replicas found finite gradients, expected all "
               "or none: they have come to differ",
               n_taken, parallel_.size());
  return n_taken > 0;
}

void ReplicatedOptimizer::begin_step(double grad_scale) {
  parallel_.refresh();
  parallel_.for_each_replica([&](int index, Module&) { of(index).begin_step(grad_scale); });
}

void ReplicatedOptimizer::check_gradients(double max_norm) {
  parallel_.for_each_replica([&](int index, Module&) { of(index).check_gradients(max_norm); });
}

void ReplicatedOptimizer::check_losses(const std::vector<Tensor>& mean_losses) {
  parallel_.for_each_replica([&](int index, Module&) {
    of(index).check_loss(mean_losses.at(static_cast<size_t>(index)));
  });
}

void ReplicatedOptimizer::apply_step() {
  parallel_.for_each_replica([&](int index, Module&) { of(index).apply_step(); });
}

bool ReplicatedOptimizer::finish_step() {
  std::vector<int> taken(optimizers_.size());
  parallel_.for_each_replica([&](int index, Module&) {
    taken[static_cast<size_t>(index)] = of(index).finish_step() ? 1 : 0;
  });
  return agreed(taken);
}

void ReplicatedOptimizer::zero_grad() {
  for (Optimizer* optimizer : optimizers_) optimizer->zero_grad();
}

double ReplicatedOptimizer::clip_grad_norm(double max_norm) {
  std::vector<double> norms(optimizers_.size());
  parallel_.for_each_replica([&](int index, Module&) {
    norms[static_cast<size_t>(index)] = of(index).clip_grad_norm(max_norm);
  });
  return norms[0];
}

void ReplicatedOptimizer::set_lr_scale(double scale) {
  for (Optimizer* optimizer : optimizers_) optimizer->set_lr_scale(scale);
}

void ReplicatedOptimizer::load_state(const NamedTensors& state) {
  for (Optimizer* optimizer : optimizers_) optimizer->load_state(state);
}

}  // namespace heddle
