#include "heddle/parallel/gather.h"

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {

Tensor gather(const std::vector<Tensor>& parts, Device device) {
  const NoGradGuard no_grad;
  std::vector<Tensor> filled;
  int64_t n_rows = 0;
  for (const Tensor& part : parts) {
    if (!part.defined() || part.size(0) == 0) continue;
    n_rows += part.size(0);
    filled.push_back(part.detach());
  }
  HEDDLE_CHECK(!filled.empty(), "gather: {} parts, expected one with rows", parts.size());
  const Tensor& first = filled.front();
  if (filled.size() == 1) return to(first, device);
  Shape shape = first.shape();
  shape[0] = n_rows;
  Tensor all = Tensor::empty(shape, first.dtype(), format_of(first), device);
  int64_t row = 0;
  for (const Tensor& part : filled) {
    Tensor rows = narrow(all, 0, row, part.size(0));
    HEDDLE_CHECK(rows.shape() == part.shape(), "gather: a part is {} beside {}, expected {}",
                 part.shape(), first.shape(), rows.shape());
    copy_(rows, part);
    row += part.size(0);
  }
  return all;
}

}  // namespace heddle
