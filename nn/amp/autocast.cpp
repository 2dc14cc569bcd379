#include "heddle/nn/amp/autocast.h"

#include "heddle/core/kept_cast.h"
#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"

namespace heddle {
namespace {

thread_local std::optional<DType> current;

bool is_castable(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

bool converts(const Tensor& x) {
  return current && x.defined() && is_castable(x.dtype()) && x.dtype() != *current;
}

/// On a CUDA device a captured step would go on reading a copy whose leaf the host has written.
bool keeps_copy_of(const Tensor& x) {
  return x.is_leaf() && x.requires_grad() && x.device().type == DeviceType::kCpu;
}

}  // namespace

Autocast::Autocast(DType dtype) : previous_(current) {
  HEDDLE_CHECK(is_castable(dtype), "autocast: dtype is {}, expected bfloat16, float16 or float32",
               dtype);
  if (dtype == DType::kFloat32)
    current.reset();
  else
    current = dtype;
}

Autocast::~Autocast() { current = previous_; }

std::optional<DType> autocast_dtype() { return current; }

Tensor autocast(const Tensor& x) { return converts(x) ? to(x, *current) : x; }

Tensor autocast_operand(const Tensor& x) {
  if (!converts(x)) return x;
  const bool keeps = keeps_copy_of(x);
  if (keeps) {
    const Tensor kept = kept_cast(x, *current);
    if (kept.defined()) return kept;
  }
  const NoGradGuard no_grad;
  const Tensor copy = to(x, *current);
  if (keeps) keep_cast(x, copy);
  return copy;
}

Tensor autocast_to_float32(const Tensor& x) {
  const bool narrow =
      x.defined() && (x.dtype() == DType::kBFloat16 || x.dtype() == DType::kFloat16);
  return current && narrow ? to(x, DType::kFloat32) : x;
}

}  // namespace heddle
