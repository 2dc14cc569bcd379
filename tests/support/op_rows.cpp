#include "heddle/tests/support/op_rows.h"

#include <algorithm>
#include <cmath>

#include "heddle/core/rng.h"
#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"

namespace heddle::testing {
namespace {

/// What survives storing `value` in the dtype.
double stored(double value, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return static_cast<double>(static_cast<float>(value));
    case DType::kBFloat16:
      return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(value))));
    case DType::kFloat16:
      return static_cast<double>(static_cast<float>(Float16(static_cast<float>(value))));
    case DType::kFloat64:
    case DType::kUInt8:
    case DType::kInt64:
      break;
  }
  return value;
}

}  // namespace

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 0x1p-52;
    case DType::kFloat32:
      return 0x1p-23;
    case DType::kFloat16:
      return 0x1p-10;
    case DType::kBFloat16:
      return 0x1p-7;
    case DType::kUInt8:
    case DType::kInt64:
      return 0.0;
  }
  return 0.0;
}

Prepared prepare(const OpCase& row, DType dtype, Layout layout, bool with_grad, Device device) {
  Prepared prepared;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    const OpInput& input = row.inputs[i];
    const DType own = input.dtype.value_or(dtype);
    prepared.values.push_back(random_array(row.name, static_cast<int>(i), input, own));
    Tensor x =
        in_layout(prepared.values.back(), own, input.vary_layout ? layout : Layout::kPlain, device);
    if (with_grad && input.differentiable && is_floating(own)) x.set_requires_grad();
    prepared.tensors.push_back(x);
  }
  return prepared;
}

const char* name_of_layout(Layout layout) {
  switch (layout) {
    case Layout::kPlain:
      return "contiguous";
    case Layout::kStrided:
      return "strided";
    case Layout::kTransposed:
      return "transposed";
    case Layout::kChannelsLast:
      return "channels-last";
    case Layout::kUnaligned:
      return "unaligned";
  }
  return "unknown";
}

double scale_of(int64_t n_accumulated) { return std::sqrt(static_cast<double>(n_accumulated)); }

Tensors gradients(const OpCase& row, DType dtype, Layout layout, const Prepared& prepared) {
  const Tensor y = row.op(prepared.tensors);
  const Array dy = random_array(row.name, 99, {.shape = y.shape()}, dtype);
  y.backward(in_layout(dy, y.dtype(), layout, y.device()));
  Tensors all;
  for (const Tensor& x : prepared.tensors) all.push_back(x.requires_grad() ? x.grad() : Tensor());
  return all;
}

Tensors exact_gradients(const OpCase& row, DType dtype, const Prepared& prepared) {
  Prepared exact = prepared;
  for (size_t i = 0; i < exact.tensors.size(); ++i) {
    const Tensor& x = prepared.tensors[i];
    exact.tensors[i] = in_layout(prepared.values[i],
                                 x.requires_grad() ? DType::kFloat64 : x.dtype(), Layout::kPlain);
    if (x.requires_grad()) exact.tensors[i].set_requires_grad();
  }
  const Tensor y = row.op(exact.tensors);
  y.backward(in_layout(random_array(row.name, 99, {.shape = y.shape()}, dtype), DType::kFloat64,
                       Layout::kPlain));
  Tensors all;
  for (const Tensor& x : exact.tensors) all.push_back(x.requires_grad() ? x.grad() : Tensor());
  return all;
}

GradientTolerance gradient_tolerance(const OpCase& row, DType dtype, int64_t n, int64_t n_results) {
  const int64_t n_sent = std::max(row.n_accumulated, n_results / std::max<int64_t>(1, n));
  const double each = is_floating(dtype) ? 4.0 * epsilon(dtype) : 0.0;  // intermediate roundings
  return {row.tolerance_factor * (tol(dtype, n_sent) + each), scale_of(n_sent)};
}

Array random_array(const std::string& name, int number, const OpInput& input, DType dtype) {
  Rng rng(std::hash<std::string>{}(name), RngPurpose::kUser, static_cast<uint64_t>(number));
  Array x = filled_array(input.shape);
  for (double& value : x.values) {
    value = input.low + (input.high - input.low) * static_cast<double>(rng.next_uniform());
    if (std::abs(value) < input.min_magnitude)
      value = std::copysign(input.min_magnitude + std::abs(value), value);
    if (!is_floating(dtype)) value = std::round(value);
    if (dtype == DType::kUInt8) value = std::abs(value);
    value = stored(value, dtype);
  }
  return x;
}

Tensor in_layout(const Array& x, DType dtype, Layout layout, Device device) {
  Strides strides = strides_for(x.shape);
  int64_t offset = 0;
  if (layout == Layout::kStrided) {
    for (int i = 0; i < strides.size(); ++i) strides[i] *= 2;
  } else if (layout == Layout::kTransposed) {
    int64_t step = 1;
    for (int i = 0; i < strides.size(); ++i) {
      strides[i] = step;
      step *= std::max<int64_t>(1, x.shape[i]);
    }
  } else if (layout == Layout::kChannelsLast && x.shape.size() == 4) {
    strides = strides_for(x.shape, MemoryFormat::kChannelsLast);
  } else if (layout == Layout::kUnaligned) {
    offset = 1;
  }
  Tensor memory = Tensor::empty({2 * x.n() + 2}, dtype);
  memory.assign(std::vector<double>(static_cast<size_t>(memory.numel()),
                                    is_floating(dtype) ? std::nan("") : 113.0));
  memory.as_strided(x.shape, strides, offset).assign(x.values);
  return to(memory, device).as_strided(x.shape, strides, offset).detach();
}

double tol(DType dtype, int64_t n_accumulated) {
  const bool narrow = dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  return epsilon(dtype) + 4.0 * epsilon(narrow ? DType::kFloat32 : dtype) * scale_of(n_accumulated);
}

}  // namespace heddle::testing
