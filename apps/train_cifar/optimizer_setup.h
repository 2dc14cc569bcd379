#pragma once

#include <memory>

#include "heddle/apps/train_cifar/options.h"
#include "heddle/nn/module.h"
#include "heddle/nn/optim/optimizer.h"
#include "heddle/nn/optim/schedule.h"

namespace heddle::train_cifar {

/// The optimizer that the flags ask for, over all parameters of `model`.
std::unique_ptr<Optimizer> make_optimizer(const Options& options, const Module& model);

/// Errors: UsageError where --warmup leaves no step of a run that has an end.
Schedule make_schedule(const Options& options, int64_t steps_per_epoch);

}  // namespace heddle::train_cifar
