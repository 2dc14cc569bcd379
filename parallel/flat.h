#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/tensor.h"

namespace heddle {

/// Where several tensors lie in one flat float32 tensor, each at a multiple of 16 bytes.
class FlatLayout {
 public:
  /// Adds a tensor of the shape and strides of `like`, which is dense. Returns its place.
  int add(const Tensor& like);
  int size() const { return static_cast<int>(places_.size()); }
  int64_t elements() const { return elements_; }

  /// Zeros for all of them.
  Tensor make(Device device) const;
  /// The part of `flat` that stands for tensor `place`, in its shape and strides.
  Tensor view(const Tensor& flat, int place) const;

 private:
  struct Place {
    Shape shape;
    Strides strides;
    int64_t offset;
  };
  std::vector<Place> places_;
  int64_t elements_ = 0;
};

/// Sums flat tensors, given one after another, as the tree ((0+1)+(2+3))+... that a sum over
/// replicas is too: so that it does not matter how many of them one device adds. The first tensor
/// given takes the sum.
class TreeSum {
 public:
  /// Adds `flat`, which is overwritten later. Returns a tensor that is free again, or none.
  std::vector<Tensor> add(Tensor flat);
  /// Adds up what is left; the sum is in the tensor that was given first.
  std::vector<Tensor> finish();
  /// Forgets what was given, and returns what of it is still here.
  std::vector<Tensor> abandon();

 private:
  struct Node {
    int level;  // of 2^level tensors
    Tensor sum;
  };
  Tensor merge_last();
  std::vector<Node> nodes_;
};

}  // namespace heddle
