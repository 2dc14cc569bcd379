#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "heddle/core/error.h"

namespace heddle {

inline constexpr int kMaxDims = 6;

/// Up to six sizes (or strides), held in place: tensors are made often, and a heap allocation for
/// each would be seen in a step's time.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const int64_t> values) {
    HEDDLE_CHECK(values.size() <= kMaxDims, "shape: {} dimensions, at most {} are supported",
                 values.size(), kMaxDims);
    for (const int64_t value : values) values_[static_cast<size_t>(size_++)] = value;
  }
  /// `count` dimensions of `value` each.
  static Dims filled(int count, int64_t value) {
    Dims dims;
    for (int i = 0; i < count; ++i) dims.push_back(value);
    return dims;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  int64_t back() const { return (*this)[size_ - 1]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + size_; }
  void push_back(int64_t value) {
    HEDDLE_CHECK(size_ < kMaxDims, "shape: more than {} dimensions", kMaxDims);
    values_[static_cast<size_t>(size_++)] = value;
  }
  bool operator==(const Dims& other) const {
    if (size_ != other.size_) return false;
    for (int i = 0; i < size_; ++i)
      if ((*this)[i] != other[i]) return false;
    return true;
  }

 private:
  std::array<int64_t, kMaxDims> values_{};
  int size_ = 0;
};

using Shape = Dims;    ///< Sizes, outermost first.
using Strides = Dims;  ///< Elements (not bytes) between neighbours along each dimension.

enum class MemoryFormat {
  kContiguous,   ///< Row-major in logical order.
  kChannelsLast  ///< (N, C, H, W) stored as N, H, W, C.
};

/// Product of the sizes; 1 for a scalar. Errors: a negative size, or a product past 2^63.
int64_t numel(const Shape& shape);

/// Strides of a dense tensor. Errors: kChannelsLast for other than four dimensions.
Strides strides_for(const Shape& shape, MemoryFormat format = MemoryFormat::kContiguous);

/// True where `strides` are those of a dense tensor in `format`; strides of dimensions of size 0 or
/// 1 do not matter.
bool is_dense(const Shape& shape, const Strides& strides, MemoryFormat format);

/// The shape that a and b broadcast to (PyTorch's rule: aligned at the last dimension, sizes equal
/// or 1). `op` names the operation in the error. Errors: sizes that differ and are not 1.
Shape broadcast(std::string_view op, const Shape& a, const Shape& b);

/// `dim` counted from the end where negative. Errors: outside [-size, size).
int wrap_dim(std::string_view op, int64_t dim, int n_dims);

/// "(64, 3, 32, 32)"; "()" for a scalar.
std::string to_string(const Dims& dims);

}  // namespace heddle

template <>
struct fmt::formatter<heddle::Dims> : fmt::formatter<std::string_view> {
  auto format(const heddle::Dims& dims, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(heddle::to_string(dims), context);
  }
};
