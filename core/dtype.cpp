#include "heddle/core/dtype.h"

namespace heddle {

int64_t size_of(DType dtype) {
  return dispatch_all(dtype, []<class T>() { return static_cast<int64_t>(sizeof(T)); });
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    case DType::kUInt8:
      return "uint8";
    case DType::kInt64:
      return "int64";
  }
  return "unknown dtype";
}

bool is_floating(DType dtype) { return dtype != DType::kUInt8 && dtype != DType::kInt64; }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (!is_floating(a)) return DType::kInt64;
  if (a == DType::kFloat64 || b == DType::kFloat64) return DType::kFloat64;
  return DType::kFloat32;  // float16 with bfloat16 too: neither holds the other
}

}  // namespace heddle
