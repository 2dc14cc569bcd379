#pragma once

#include <string>
#include <vector>

#include "heddle/nn/module.h"

namespace heddle {

struct LayerSummary {
  std::string name;  ///< "layer1.0.conv1"
  std::string description;
  Shape output;
  int64_t parameters = 0;        ///< Of the layer itself, not of layers inside.
  int64_t flops = 0;             ///< Of the forward pass, a multiply-add counted as two.
  int64_t activation_bytes = 0;  ///< Of the output.
};

/// What each layer of `model` makes of zeros of shape `input`, in the order of the forward pass. A
/// module made of others has a row of its own where it computes something beyond them. The model is
/// run in evaluation mode and left as it was.
std::vector<LayerSummary> layer_summaries(Module& model, const Shape& input);

/// The same as a table for people, with totals.
std::string summarize(Module& model, const Shape& input);

}  // namespace heddle
