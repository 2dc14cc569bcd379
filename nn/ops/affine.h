#pragma once

#include <vector>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/layout.h"
#include "heddle/nn/ops/relu_mask.h"

// What conv2d and linear share: y = x * weight + bias, where * is linear in both, and ReLU on top
// where asked.
namespace heddle {

/// Errors: weight or bias have another dtype or device than x, or bias is not (weight.size(0)).
void check_weight_and_bias(const char* op, const Tensor& x, const Tensor& weight,
                           const Tensor& bias);

/// The operands that get the gradients (bias may be undefined), and what the kernels read of them.
struct AffineOperands {
  Tensor x, weight, bias;
  Tensor dense_x, dense_weight;
};

/// Records y on the tape. `dy_format` is the storage order in which the kernels read dy;
/// `backward_data(dy, dense_weight)` is dx, `backward_weight(dy, dense_x, with_bias)` {dw, db}, in
/// the dtype of the weight or in that of dy.
template <class BackwardData, class BackwardWeight>
void record_affine(const char* op, Tensor& y, const AffineOperands& operands,
                   MemoryFormat dy_format, bool fused_relu, BackwardData backward_data,
                   BackwardWeight backward_weight) {
  const auto& [x, weight, bias, dense_x, dense_weight] = operands;
  std::vector<Tensor> inputs{x, weight};
  if (bias.defined()) inputs.push_back(bias);
  if (!needs_grad(inputs)) return;
  const bool wants_dx = x.requires_grad();
  const bool wants_db = bias.defined() && bias.requires_grad();
  const bool wants_dw = weight.requires_grad() || wants_db;
  record(op, y, inputs,
         [dy_format, wants_db, dtype = weight.dtype(), backward_data, backward_weight,
          n_inputs = inputs.size(), saved_x = wants_dw ? SavedTensor(dense_x) : SavedTensor(),
          saved_weight = wants_dx ? SavedTensor(dense_weight) : SavedTensor(),
          saved_y = fused_relu ? SavedTensor(y) : SavedTensor()](const Tensor& gradient) {
           Tensor dy = dense(gradient, dy_format);
           if (saved_y.defined()) dy = mask_by_relu(dy, saved_y.get());
           Gradients gradients(n_inputs);
           if (saved_weight.defined()) gradients[0] = backward_data(dy, saved_weight.get());
           if (saved_x.defined()) {
             const Gradients dw_db = backward_weight(dy, saved_x.get(), wants_db);
             gradients[1] = to(dw_db[0], dtype);
             if (wants_db) gradients[2] = to(dw_db[1], dtype);
           }
           return gradients;
         });
}

}  // namespace heddle
