#include "heddle/apps/train_cifar/optimizer_setup.h"

#include "heddle/core/error.h"
#include "heddle/nn/optim/adam.h"
#include "heddle/nn/optim/sgd.h"

namespace heddle::train_cifar {

std::unique_ptr<Optimizer> make_optimizer(const Options& o, const Module& model) {
  if (o.optimizer == "sgd")
    return std::make_unique<Sgd>(model.parameters(), SgdOptions{.lr = o.lr,
                                                                .momentum = o.momentum,
                                                                .weight_decay = o.weight_decay,
                                                                .nesterov = o.nesterov});
  if (o.optimizer == "adamw")
    return std::make_unique<AdamW>(
        model.parameters(),
        AdamWOptions{
            .lr = o.lr, .betas = {o.beta1, o.beta2}, .eps = o.eps, .weight_decay = o.weight_decay});
  return std::make_unique<Adam>(
      model.parameters(),
      AdamOptions{
          .lr = o.lr, .betas = {o.beta1, o.beta2}, .eps = o.eps, .weight_decay = o.weight_decay});
}

Schedule make_schedule(const Options& o, int64_t steps_per_epoch) {
  ScheduleOptions schedule{.kind = parse_schedule(o.schedule),
                           .total_steps = o.epochs * steps_per_epoch,
                           .warmup_steps = o.warmup,
                           .gamma = o.lr_gamma,
                           .min_factor = o.lr_min / o.lr,
                           .rise = o.peak_at};
  if (o.warmup >= schedule.total_steps && o.warmup > 0)
    throw UsageError(
        fmt::format("--warmup: \"{}\" is not allowed, expected less than the {} steps of the run",
                    o.warmup, schedule.total_steps));
  if (schedule.kind == ScheduleKind::kStep)
    for (int64_t epoch = o.lr_step; epoch < o.epochs; epoch += o.lr_step)
      schedule.milestones.push_back(epoch * steps_per_epoch);
  return Schedule(std::move(schedule));
}

}  // namespace heddle::train_cifar
