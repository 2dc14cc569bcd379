#include "heddle/nn/modules/sequential.h"

namespace heddle {

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (Module* module : modules_) y = (*module)(y);
  return y;
}

}  // namespace heddle
