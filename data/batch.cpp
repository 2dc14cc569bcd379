#include "heddle/data/batch.h"

#include <cstring>

#include "heddle/core/phase.h"

namespace heddle::detail {
namespace {

/// Asks for the cache lines of a picture that is needed next. Shuffled records lie anywhere in the
/// files, so the processor does not foresee them: 1.27 us a picture without this, 0.99 with it.
void prefetch(const ImageRecord& image) {
  constexpr int64_t kCacheLine = 64;
  for (int64_t i = 0; i < kImageBytes; i += kCacheLine) __builtin_prefetch(image.planes + i);
}

/// Copies `from` into the dense place `to`, whose strides are `strides`, element by element.
void copy_strided(const Tensor& from, uint8_t* to, const Strides& strides) {
  const int64_t bytes = size_of(from.dtype());
  const auto* data = static_cast<const uint8_t*>(from.raw_data());
  const Shape& shape = from.shape();
  Dims index = Dims::filled(shape.size(), 0);
  for (int64_t n = from.numel(); n > 0; --n) {
    int64_t source = 0;
    int64_t target = 0;
    for (int d = 0; d < shape.size(); ++d) {
      source += index[d] * from.strides()[d];
      target += index[d] * strides[d];
    }
    std::memcpy(to + target * bytes, data + source * bytes, static_cast<size_t>(bytes));
    for (int d = shape.size() - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
  }
}

Tensor stack_space(const Tensor& sample, int64_t n) {
  HEDDLE_CHECK(sample.dim() < kMaxDims, "loader: a sample has shape {}, at most {} dimensions",
               sample.shape(), kMaxDims - 1);
  Shape shape = {n};
  for (const int64_t size : sample.shape()) shape.push_back(size);
  return Tensor::empty(shape, sample.dtype(),
                       sample.dim() == 3 ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous);
}

void put(const Tensor& sample, const Tensor& batch, int64_t place) {
  const Strides& all = batch.strides();
  Strides strides;
  for (int d = 1; d < all.size(); ++d) strides.push_back(all[d]);
  const int64_t bytes = size_of(sample.dtype());
  uint8_t* to = static_cast<uint8_t*>(batch.raw_data()) + place * all[0] * bytes;
  if (sample.dim() != 3 && sample.is_contiguous()) {
    std::memcpy(to, sample.raw_data(), static_cast<size_t>(sample.numel() * bytes));
  } else {
    copy_strided(sample, to, strides);
  }
}

/// Calls use(i, picture) for each of the batch's pictures, while the next is on its way to the
/// cache.
template <class Use>
void for_each_picture(const ImageDataset& dataset, const Batch& batch, const Use& use) {
  ImageRecord next = dataset.record(batch.indices.front());
  for (size_t i = 0; i < batch.indices.size(); ++i) {
    const ImageRecord image = next;
    if (i + 1 < batch.indices.size()) {
      next = dataset.record(batch.indices[i + 1]);
      prefetch(next);
    }
    use(i, image);
  }
}

}  // namespace

Rng augmentation(uint64_t seed, int64_t epoch, int64_t index) {
  return Rng(seed, RngPurpose::kAugment, static_cast<uint64_t>(index),
             static_cast<uint32_t>(epoch));
}

Batch empty_image_batch(int64_t n, DType dtype) {
  Batch batch;
  batch.images = Tensor::empty({n, kImageChannels, kImageSide, kImageSide}, dtype,
                               MemoryFormat::kChannelsLast);
  batch.labels = Tensor::empty({n}, DType::kInt64);
  return batch;
}

Tensor sent(const Tensor& host, Device device) {
  Tensor there = Tensor::empty(
      host.shape(), host.dtype(),
      host.is_contiguous() ? MemoryFormat::kContiguous : MemoryFormat::kChannelsLast, device);
  memory::copy(there.raw_data(), device, host.raw_data(), host.device(),
               host.numel() * size_of(host.dtype()), /*wait=*/false);
  return there;
}

void move_batch(Batch& batch, Device device) {
  if (device.type == DeviceType::kCpu) return;
  const PhaseSpan span(Phase::kCopy, "copy batch");
  batch.images = sent(batch.images, device);
  batch.labels = sent(batch.labels, device);
}

void fill_image_batch(const ImageDataset& dataset, const ImageTransform& transform, uint64_t seed,
                      Batch& batch) {
  auto fill = [&]<class T>(T* out) {
    int64_t* labels = batch.labels.data<int64_t>();
    for_each_picture(dataset, batch, [&](size_t i, const ImageRecord& image) {
      Rng rng = augmentation(seed, batch.epoch, batch.indices[i]);
      transform.apply(image.planes, rng, out + static_cast<int64_t>(i) * kImageBytes);
      labels[i] = image.label;
    });
  };
  if (batch.images.dtype() == DType::kBFloat16) {
    fill(batch.images.data<BFloat16>());
  } else {
    fill(batch.images.data<float>());
  }
}

void fill_byte_batch(const ImageDataset& dataset, const ImageTransform& transform, uint64_t seed,
                     AugmentDraw* draws, Batch& batch) {
  auto* out = batch.images.data<uint8_t>();
  int64_t* labels = batch.labels.data<int64_t>();
  for_each_picture(dataset, batch, [&](size_t i, const ImageRecord& image) {
    Rng rng = augmentation(seed, batch.epoch, batch.indices[i]);
    std::memcpy(out + static_cast<int64_t>(i) * kImageBytes, image.planes, kImageBytes);
    draws[i] = transform.draw(rng);
    labels[i] = image.label;
  });
}

void fill_sample_batch(const Dataset& dataset, uint64_t seed, Batch& batch) {
  const int64_t n = batch.size();
  batch.labels = Tensor::empty({n}, DType::kInt64);
  Shape shape;
  DType dtype{};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = batch.indices[static_cast<size_t>(i)];
    Rng rng = augmentation(seed, batch.epoch, index);
    const Sample sample = dataset.draw(index, rng);
    HEDDLE_CHECK(sample.value.defined(), "loader: sample {} has an undefined value", index);
    if (i == 0) {
      shape = sample.value.shape();
      dtype = sample.value.dtype();
      batch.images = stack_space(sample.value, n);
    }
    HEDDLE_CHECK(sample.value.shape() == shape && sample.value.dtype() == dtype,
                 "loader: sample {} is {} of shape {}, expected {} of shape {} as sample {} is",
                 index, sample.value.dtype(), sample.value.shape(), dtype, shape,
                 batch.indices.front());
    put(sample.value, batch.images, i);
    batch.labels.data<int64_t>()[i] = sample.label;
  }
}

}  // namespace heddle::detail
