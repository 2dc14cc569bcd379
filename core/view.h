#pragma once

#include "heddle/core/dtype.h"
#include "heddle/core/shape.h"

namespace heddle {

/// A tensor as a kernel sees it: where it lies, not who owns it.
struct View {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  Shape shape;
  Strides strides;

  int64_t numel() const { return heddle::numel(shape); }
  template <class T>
  T* as() const {
    HEDDLE_ASSERT(dtype_of<std::remove_const_t<T>> == dtype);
    return static_cast<T*>(data);
  }
};

}  // namespace heddle
