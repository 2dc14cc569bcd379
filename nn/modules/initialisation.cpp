#include "heddle/nn/modules/initialisation.h"

#include <cmath>

#include "heddle/nn/ops.h"

namespace heddle {

Tensor initial_values(const Shape& shape, int64_t fan_in, MemoryFormat format) {
  const double bound = fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0.0;
  return contiguous(rand(shape, next_init_stream(), -bound, bound), format);
}

}  // namespace heddle
