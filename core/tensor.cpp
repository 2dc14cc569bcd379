#include "heddle/core/tensor.h"

#include <algorithm>

#include "heddle/core/tape.h"
#include "heddle/core/tensor_impl.h"

namespace heddle {
namespace {

/// First and one past the last element that a view touches, from its offset.
std::pair<int64_t, int64_t> reach(const Shape& shape, const Strides& strides) {
  int64_t low = 0;
  int64_t high = 0;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return {0, 0};
    const int64_t step = (shape[i] - 1) * strides[i];
    (step < 0 ? low : high) += step;
  }
  return {low, high + 1};
}

/// Calls body(place, i) with the storage place of the i-th element in logical row-major order.
template <class Body>
void for_each_place(const Shape& shape, const Strides& strides, const Body& body) {
  const int64_t n = numel(shape);
  Dims index = Dims::filled(shape.size(), 0);
  int64_t place = 0;
  for (int64_t i = 0; i < n; ++i) {
    body(place, i);
    for (int d = shape.size() - 1; d >= 0; --d) {
      place += strides[d];
      if (++index[d] < shape[d]) break;
      place -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) return value;
  if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Float16>)
    return To(static_cast<float>(value));
  else if constexpr (std::is_same_v<From, BFloat16> || std::is_same_v<From, Float16>)
    return static_cast<To>(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

}  // namespace

Tensor TapeAccess::make(Tensor::Impl impl) {
  Tensor tensor;
  tensor.impl_ = std::make_shared<Tensor::Impl>(std::move(impl));
  return tensor;
}

Tensor Tensor::empty(const Shape& shape, DType dtype, MemoryFormat format, Device device) {
  const int64_t count = heddle::numel(shape);
  const int64_t size = size_of(dtype);
  HEDDLE_CHECK(count <= INT64_MAX / size, "empty: {} elements of {} pass 2^63 bytes", shape, dtype);
  return TapeAccess::make({.storage = std::make_shared<Storage>(device, count * size),
                           .shape = shape,
                           .strides = strides_for(shape, format),
                           .dtype = dtype});
}

Tensor Tensor::empty_like(const Tensor& like) { return empty_like(like, like.dtype()); }

Tensor Tensor::empty_like(const Tensor& like, DType dtype) {
  const bool channels_last =
      !like.is_contiguous() && like.is_contiguous(MemoryFormat::kChannelsLast);
  return empty(like.shape(), dtype,
               channels_last ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous,
               like.device());
}

Tensor Tensor::from_storage(std::shared_ptr<Storage> storage, const Shape& shape,
                            const Strides& strides, int64_t offset, DType dtype) {
  HEDDLE_CHECK(shape.size() == strides.size(),
               "from_storage: shape {} and strides {} differ in length", shape, strides);
  const auto [low, high] = reach(shape, strides);
  const int64_t available = storage->bytes() / size_of(dtype);
  HEDDLE_CHECK(
      heddle::numel(shape) == 0 || (offset + low >= 0 && offset + high <= available),
      "from_storage: shape {}, strides {} and offset {} reach elements {} to {} of a storage "
      "of {}",
      shape, strides, offset, offset + low, offset + high, available);
  return TapeAccess::make({.storage = std::move(storage),
                           .shape = shape,
                           .strides = strides,
                           .offset = offset,
                           .dtype = dtype});
}

const Tensor::Impl& Tensor::impl() const {
  HEDDLE_CHECK(impl_ != nullptr, "tensor: used before it was given a value");
  return *impl_;
}

const Shape& Tensor::shape() const { return impl().shape; }
const Strides& Tensor::strides() const { return impl().strides; }
int64_t Tensor::offset() const { return impl().offset; }
int64_t Tensor::size(int64_t dim) const { return shape()[wrap_dim("size", dim, this->dim())]; }
int64_t Tensor::numel() const { return heddle::numel(shape()); }
DType Tensor::dtype() const { return impl().dtype; }
Device Tensor::device() const { return impl().storage->device(); }
const std::shared_ptr<Storage>& Tensor::storage() const { return impl().storage; }

bool Tensor::is_contiguous(MemoryFormat format) const {
  return is_dense(shape(), strides(), format);
}

void Tensor::check_dtype(DType expected) const {
  HEDDLE_CHECK(dtype() == expected, "tensor: elements are {}, asked for as {}", dtype(), expected);
}

void* Tensor::raw_data() const {
  return static_cast<char*>(impl().storage->data()) + offset() * size_of(dtype());
}

View Tensor::view() const { return {raw_data(), dtype(), shape(), strides()}; }

namespace {

/// Memory of the host for all that x reaches, seen as x is; copied from x where asked.
Tensor on_host(const Tensor& x, bool copied) {
  const auto [low, high] = reach(x.shape(), x.strides());
  const int64_t size = size_of(x.dtype());
  auto storage = std::make_shared<Storage>(Device::cpu(), (high - low) * size);
  if (copied)
    memory::copy(storage->data(), Device::cpu(), static_cast<char*>(x.raw_data()) + low * size,
                 x.device(), storage->bytes());
  return Tensor::from_storage(std::move(storage), x.shape(), x.strides(), -low, x.dtype());
}

}  // namespace

Tensor host_copy(const Tensor& x) {
  return x.device().type == DeviceType::kCpu ? x : on_host(x, true);
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  std::vector<T> values(static_cast<size_t>(numel()));
  const Tensor here = host_copy(*this);
  dispatch_all(dtype(), [&]<class S>() {
    const S* source = static_cast<const S*>(here.raw_data());
    for_each_place(shape(), strides(), [&](int64_t place, int64_t i) {
      values[static_cast<size_t>(i)] = convert<T>(source[place]);
    });
  });
  return values;
}

template <class T>
void Tensor::assign(const std::vector<T>& values) {
  HEDDLE_CHECK(static_cast<int64_t>(values.size()) == numel(),
               "assign: {} values for a tensor of shape {}", values.size(), shape());
  const bool on_cpu = device().type == DeviceType::kCpu;
  const auto [low, high] = reach(shape(), strides());
  // What lies between the elements of a view stays as it is.
  const Tensor here = on_cpu ? *this : on_host(*this, high - low != numel());
  dispatch_all(dtype(), [&]<class S>() {
    S* target = static_cast<S*>(here.raw_data());
    for_each_place(shape(), strides(), [&](int64_t place, int64_t i) {
      target[place] = convert<S>(values[static_cast<size_t>(i)]);
    });
  });
  if (!on_cpu)
    memory::copy(static_cast<char*>(raw_data()) + low * size_of(dtype()), device(),
                 here.storage()->data(), Device::cpu(), here.storage()->bytes());
  bump_version();
}

template <class T>
Tensor Tensor::from(const std::vector<T>& values, const Shape& shape) {
  Tensor tensor = empty(shape, dtype_of<T>);
  tensor.assign(values);
  return tensor;
}

#define HEDDLE_INSTANTIATE(T)                             \
  template std::vector<T> Tensor::to_vector<T>() const;   \
  template void Tensor::assign<T>(const std::vector<T>&); \
  template Tensor Tensor::from<T>(const std::vector<T>&, const Shape&);
HEDDLE_INSTANTIATE(float)
HEDDLE_INSTANTIATE(double)
HEDDLE_INSTANTIATE(BFloat16)
HEDDLE_INSTANTIATE(Float16)
HEDDLE_INSTANTIATE(uint8_t)
HEDDLE_INSTANTIATE(int64_t)
#undef HEDDLE_INSTANTIATE

double Tensor::item() const {
  HEDDLE_CHECK(numel() == 1, "item: shape is {}, expected one element", shape());
  return at(Dims::filled(dim(), 0));
}

double Tensor::at(const Dims& index) const {
  HEDDLE_CHECK(index.size() == dim(), "at: index {} into shape {}", index, shape());
  int64_t place = 0;
  for (int i = 0; i < dim(); ++i) {
    HEDDLE_CHECK(index[i] >= 0 && index[i] < shape()[i], "at: index {} into shape {}", index,
                 shape());
    place += index[i] * strides()[i];
  }
  return dispatch_all(dtype(), [&]<class T>() {
    T element{};
    memory::copy(&element, Device::cpu(), static_cast<const T*>(raw_data()) + place, device(),
                 static_cast<int64_t>(sizeof(T)));
    return convert<double>(element);
  });
}

Tensor Tensor::detach() const { return as_strided(shape(), strides(), offset()); }

Tensor Tensor::as_strided(const Shape& shape, const Strides& strides, int64_t offset) const {
  Tensor alias = from_storage(storage(), shape, strides, offset, dtype());
  alias.impl_->name = name();
  return alias;
}

void Tensor::bump_version() const { impl().storage->bump_version(); }
int64_t Tensor::version() const { return impl().storage->version(); }
const std::string& Tensor::name() const { return impl().name; }
void Tensor::set_name(std::string name) const {
  (void)impl();
  impl_->name = std::move(name);
}

}  // namespace heddle
