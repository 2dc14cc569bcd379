#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "heddle/core/tensor.h"

/// What a Tensor points at. For core/ alone.
namespace heddle {

/// x itself where it is on the CPU; else a tensor there over a copy of the memory that x reaches,
/// with x's shape and strides, without history.
Tensor host_copy(const Tensor& x);

class TapeEntry;

/// What the tape knows of a tensor; only tensors that take part in it have one.
struct AutogradMeta {
  bool requires_grad = false;        // a leaf that asks for gradients
  Tensor grad;                       // of a leaf
  std::shared_ptr<TapeEntry> entry;  // what made it, where it is no leaf
  bool is_view = false;              // of a tensor that takes part
  int64_t view_version = 0;          // of the storage when the view was made
  std::vector<std::function<void(const Tensor&)>> hooks;
  Tensor cast;               // of a leaf, its elements in another dtype (core/kept_cast.h)
  int64_t cast_version = 0;  // of the storage that it was made from
};

struct Tensor::Impl {
  std::shared_ptr<Storage> storage;
  Shape shape;
  Strides strides;
  int64_t offset = 0;
  DType dtype = DType::kFloat32;
  std::string name;
  std::unique_ptr<AutogradMeta> autograd;
};

/// The tape's way into a Tensor.
struct TapeAccess {
  static Tensor make(Tensor::Impl impl);
  /// Made where missing.
  static AutogradMeta& meta(const Tensor& tensor);
  static const AutogradMeta* find_meta(const Tensor& tensor);
  static const void* identity(const Tensor& tensor) { return tensor.impl_.get(); }
  static bool is_unique(const Tensor& tensor) {
    return tensor.impl_.use_count() == 1 && tensor.storage().use_count() == 1;
  }
};

}  // namespace heddle
