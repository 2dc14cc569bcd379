#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/device.h"
#include "heddle/core/dtype.h"
#include "heddle/core/memory.h"
#include "heddle/core/shape.h"
#include "heddle/core/view.h"

namespace heddle {

/// An n-dimensional array: shared storage seen through shape, strides and offset. Copying a Tensor
/// copies the reference, as in PyTorch; `clone` (nn/ops.h) copies the elements. Shapes of images
/// are logical (N, C, H, W) whatever the storage order.
class Tensor {
 public:
  Tensor() = default;  ///< Undefined: `defined()` is false and only assignment is allowed.

  /// Uninitialised elements.
  static Tensor empty(const Shape& shape, DType dtype = DType::kFloat32,
                      MemoryFormat format = MemoryFormat::kContiguous,
                      Device device = Device::cpu());
  /// Uninitialised, with the dtype, device and storage order (where dense) of `like`.
  static Tensor empty_like(const Tensor& like);
  static Tensor empty_like(const Tensor& like, DType dtype);
  /// The values given, row-major. T is any of heddle's element types.
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape);
  /// A tensor over memory that `storage` owns. Errors: the view reaches outside of the storage.
  static Tensor from_storage(std::shared_ptr<Storage> storage, const Shape& shape,
                             const Strides& strides, int64_t offset, DType dtype);

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  const Strides& strides() const;
  int64_t offset() const;  ///< Units: elements.
  int64_t size(int64_t dim) const;
  int dim() const { return shape().size(); }
  int64_t numel() const;
  DType dtype() const;
  Device device() const;
  const std::shared_ptr<Storage>& storage() const;
  bool is_contiguous(MemoryFormat format = MemoryFormat::kContiguous) const;

  /// First element. Errors: T is not the dtype.
  template <class T>
  T* data() const {
    check_dtype(dtype_of<T>);
    return static_cast<T*>(raw_data());
  }
  void* raw_data() const;
  View view() const;
  /// Elements in logical row-major order, converted. For tests and small results.
  template <class T>
  std::vector<T> to_vector() const;
  /// The only element, converted. Errors: numel is not 1.
  double item() const;
  /// One element. Errors: index count or range.
  double at(const Dims& index) const;
  /// Overwrites with `values` in logical row-major order; counts as an in-place write.
  template <class T>
  void assign(const std::vector<T>& values);

  /// Another tensor over the same storage without history (shares the version count).
  Tensor detach() const;
  /// Raw view of the same storage, without history; the differentiable ones are in nn/ops.h.
  Tensor as_strided(const Shape& shape, const Strides& strides, int64_t offset) const;

  // Autograd. Everything below is about the tape; see core/tape.h.
  bool requires_grad() const;  ///< A leaf that asks for gradients, or a result that has a history.
  Tensor& set_requires_grad(bool value = true);  ///< Errors: not floating, or not a leaf.
  bool is_leaf() const;
  /// The accumulated gradient of a leaf; undefined before the first backward and after zero_grad.
  Tensor grad() const;
  void set_grad(const Tensor& grad) const;
  /// Walks the tape from this tensor. `gradient` defaults to one for a single element.
  /// Errors: no history; more than one element without `gradient`; a second call without
  /// `retain_graph`; a saved tensor that was written in place.
  void backward(const Tensor& gradient = {}, bool retain_graph = false) const;
  /// Called when the gradient of this leaf has been accumulated completely in a backward.
  void register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const;
  /// Marks an in-place write: every SavedTensor over this storage becomes stale.
  void bump_version() const;
  int64_t version() const;
  /// A name for messages ("conv1.weight"); empty unless set.
  const std::string& name() const;
  void set_name(std::string name) const;

  std::string to_string() const;  ///< For people; large tensors are summarised.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

 private:
  friend struct TapeAccess;
  struct Impl;
  void check_dtype(DType expected) const;
  const Impl& impl() const;  ///< Errors: undefined tensor.
  std::shared_ptr<Impl> impl_;
};

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace heddle
