#include "heddle/core/shape.h"

#include <algorithm>

namespace heddle {

int64_t numel(const Shape& shape) {
  int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (const int64_t size : shape) {
    HEDDLE_CHECK(size >= 0, "shape: {} has a negative size", shape);
    empty = empty || size == 0;
    overflow = __builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) || overflow;
  }
  HEDDLE_CHECK(!overflow, "shape: {} has more than 2^63 elements", shape);
  return empty ? 0 : count;
}

Strides strides_for(const Shape& shape, MemoryFormat format) {
  Strides strides = Strides::filled(shape.size(), 1);
  if (format == MemoryFormat::kChannelsLast) {
    HEDDLE_CHECK(shape.size() == 4, "channels-last: shape is {}, expected (N, C, H, W)", shape);
    int64_t stride = 1;
    for (const int dim : {1, 3, 2, 0}) {
      strides[dim] = stride;
      stride *= std::max<int64_t>(shape[dim], 1);
    }
    return strides;
  }
  for (int i = shape.size() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<int64_t>(shape[i + 1], 1);
  return strides;
}

bool is_dense(const Shape& shape, const Strides& strides, MemoryFormat format) {
  if (format == MemoryFormat::kChannelsLast && shape.size() != 4) return false;
  const Strides dense = strides_for(shape, format);
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != dense[i]) return false;
  }
  return true;
}

Shape broadcast(std::string_view op, const Shape& a, const Shape& b) {
  const int n = std::max(a.size(), b.size());
  Shape out = Shape::filled(n, 1);
  for (int i = 1; i <= n; ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    HEDDLE_CHECK(x == y || x == 1 || y == 1,
                 "{}: shapes {} and {} do not broadcast: sizes {} and {} differ and neither is 1",
                 op, a, b, x, y);
    out[n - i] = x == 1 ? y : x;
  }
  return out;
}

int wrap_dim(std::string_view op, int64_t dim, int n_dims) {
  HEDDLE_CHECK(dim >= -n_dims && dim < n_dims,
               "{}: dimension {} is outside [{}, {}) of a tensor with {} dimensions", op, dim,
               -n_dims, n_dims, n_dims);
  return static_cast<int>(dim < 0 ? dim + n_dims : dim);
}

std::string to_string(const Dims& dims) {
  return fmt::format("({})", fmt::join(dims.begin(), dims.end(), ", "));
}

}  // namespace heddle
