#pragma once

#include <cmath>
#include <string_view>

#include "heddle/nn/optim/optimizer.h"

/// What the optimizers share beside their base class.
namespace heddle::detail {

template <class Options>
std::vector<std::vector<Tensor>> parameters_of(const std::vector<ParameterGroup<Options>>& groups) {
  std::vector<std::vector<Tensor>> parameters;
  for (const auto& group : groups) parameters.push_back(group.parameters);
  return parameters;
}

template <class Options>
std::vector<Options> options_of(const std::vector<ParameterGroup<Options>>& groups) {
  std::vector<Options> options;
  for (const auto& group : groups) options.push_back(group.options);
  return options;
}

inline void check_not_negative(std::string_view optimizer, std::string_view option, double value) {
  HEDDLE_CHECK(std::isfinite(value) && value >= 0.0,
               "{}: {} is {}, expected a number of at least 0", optimizer, option, value);
}

}  // namespace heddle::detail
