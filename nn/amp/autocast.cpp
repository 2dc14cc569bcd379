#include "heddle/nn/amp/autocast.h"

#include "heddle/nn/ops.h"

namespace heddle {
namespace {

thread_local std::optional<DType> current;

bool is_castable(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
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

Tensor autocast(const Tensor& x) {
  if (!current || !x.defined() || !is_castable(x.dtype()) || x.dtype() == *current) return x;
  return to(x, *current);
}

Tensor autocast_to_float32(const Tensor& x) {
  const bool narrow =
      x.defined() && (x.dtype() == DType::kBFloat16 || x.dtype() == DType::kFloat16);
  return current && narrow ? to(x, DType::kFloat32) : x;
}

}  // namespace heddle
