#pragma once

#include <string>

#include "heddle/nn/amp/grad_scaler.h"
#include "heddle/nn/module.h"

namespace heddle::train_cifar {

/// Runs the model once more and names the first layer, in the order of the forward pass, whose
/// output is not finite: "conv2 (Conv2d(32, 64, ...))". Says so where there is none.
std::string first_layer_not_finite(Module& model, const Tensor& images);

/// What is wrong with a loss that is not finite, for fail_step.
std::string describe_loss(double loss);

/// What is wrong with gradients whose norm is not finite, for fail_step.
inline constexpr const char* kGradients = "the norm of the gradients is not finite";

/// Ends the step after `step` others: says what happened, and the layer that first_layer_not_finite
/// finds.
[[noreturn]] void fail_step(int64_t step, const std::string& what, Module& model,
                            const Tensor& images);

/// fail_step where the scaler is stuck().
void fail_where_stuck(const GradScaler& scaler, int64_t step, Module& model, const Tensor& images);

/// Errors: a parameter or buffer of the model has NaN or infinite elements; names it.
void check_state_finite(const Module& model);

}  // namespace heddle::train_cifar
