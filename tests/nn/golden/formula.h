#pragma once

#include <cmath>
#include <vector>

#include "heddle/nn/module.h"

/// Values that make_golden.py computes by the same formulas, bit for bit.
namespace heddle::golden {

/// `count` numbers in [-bound, bound): a hash of their index and the salt.
inline std::vector<float> values(int64_t count, uint32_t salt, float bound) {
  std::vector<float> result;
  for (uint32_t i = 0; i < static_cast<uint32_t>(count); ++i) {
    uint32_t x = i * 2654435761U + salt * 97U + 1U;
    x ^= x >> 16;
    x *= 0x85EBCA6BU;
    x ^= x >> 13;
    result.push_back((static_cast<float>(x >> 8) * 0x1p-23F - 1.0F) * bound);
  }
  return result;
}

/// Parameter number i gets values of salt i; see make_golden.py.
inline void fill(const Module& model) {
  uint32_t salt = 0;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const double fan_in =
        parameter.dim() > 1 ? static_cast<double>(parameter.numel() / parameter.size(0)) : 64.0;
    std::vector<float> filled =
        values(parameter.numel(), salt++, static_cast<float>(std::pow(fan_in, -0.5)));
    if (parameter.dim() == 1 && name.ends_with("weight"))
      for (float& value : filled) value += 1.0F;
    parameter.detach().assign(filled);
  }
}

inline Tensor pictures(const Shape& shape) {
  return Tensor::from(values(numel(shape), 1000, 1.0F), shape);
}

inline Tensor labels(int64_t batch) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < batch; ++i) result.push_back(i * 3 % 10);
  return Tensor::from(result, {batch});
}

}  // namespace heddle::golden
