#pragma once

#include <optional>

#include "heddle/core/dtype.h"
#include "heddle/kernels/host/scratch.h"

/// Kernels of the matrix products exist for float32 and float64. What is stored in 16 bits is
/// computed in float32 through copies: correct, and slow.
namespace heddle::cpu {

inline bool is_16_bit(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }

/// A float32 copy of n 16-bit floats; null stays null.
class Widened {
 public:
  Widened(const void* source, int64_t n, DType dtype);
  const float* data() const { return copy_ ? copy_->as<float>() : nullptr; }

 private:
  std::optional<Scratch> copy_;
};

/// Room for n float32 results, rounded into `target` by write(); null stays null.
class Narrowed {
 public:
  Narrowed(void* target, int64_t n, DType dtype);
  float* data() const { return values_ ? values_->as<float>() : nullptr; }
  void write() const;

 private:
  void* target_;
  int64_t n_;
  DType dtype_;
  std::optional<Scratch> values_;
};

}  // namespace heddle::cpu
