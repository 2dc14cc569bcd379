#include "heddle/nn/ops/broadcast.h"

#include "heddle/core/tape.h"
#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/ops.h"

namespace heddle {

Tensor expanded_view(const Tensor& x, const Shape& shape) {
  const int added = shape.size() - x.dim();
  Strides strides = Strides::filled(shape.size(), 0);
  for (int i = 0; i < x.dim(); ++i)
    if (x.shape()[i] == shape[added + i]) strides[added + i] = x.strides()[i];
  return x.as_strided(shape, strides, x.offset());
}

void check_broadcasts_to(std::string_view op, const Shape& from, const Shape& to) {
  const int added = to.size() - from.size();
  bool fits = added >= 0;
  for (int i = 0; fits && i < from.size(); ++i) fits = from[i] == to[added + i] || from[i] == 1;
  HEDDLE_CHECK(fits, "{}: shape {} does not broadcast to {}", op, from, to);
}

Tensor sum_to_shape(const Tensor& dy, const Shape& shape) {
  if (dy.shape() == shape) return dy;
  const int added = dy.dim() - shape.size();
  Dims summed;
  for (int i = 0; i < dy.dim(); ++i)
    if (i < added || (shape[i - added] == 1 && dy.shape()[i] != 1)) summed.push_back(i);
  const NoGradGuard no_grad;
  const Autocast as_given(DType::kFloat32);
  return reshape(sum(dy, summed, true), shape);
}

Tensor apart_from(const Tensor& target, const Tensor& source) {
  if (source.storage() != target.storage()) return source;
  const bool same_view = source.shape() == target.shape() && source.offset() == target.offset() &&
                         source.strides() == target.strides() && source.dtype() == target.dtype();
  if (same_view) return source;
  const NoGradGuard no_grad;
  return clone(source);
}

}  // namespace heddle
