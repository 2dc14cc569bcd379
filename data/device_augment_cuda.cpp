#include "heddle/core/device_guard.h"
#include "heddle/data/device_augment.h"
#include "heddle/kernels/augment.h"

namespace heddle::detail {

DeviceAugment::DeviceAugment(const LoaderOptions& options, const ImageTransform& transform,
                             StreamRef stream)
    : device_(options.device),
      dtype_(options.dtype),
      cutout_(transform.options().cutout),
      table_(kImageChannels * 256 * size_of(options.dtype), stream) {
  const StreamGuard guard(stream);
  const void* here = dtype_ == DType::kBFloat16
                         ? static_cast<const void*>(transform.table<BFloat16>())
                         : transform.table<float>();
  memory::copy(table_.data(), device_, here, Device::cpu(), table_.bytes());
}

Tensor DeviceAugment::run(const uint8_t* planes, const int64_t* indices, const Buffer& draws,
                          int64_t n, StreamRef stream) const {
  const DeviceGuard guard(device_);
  Tensor images = Tensor::empty({n, kImageChannels, kImageSide, kImageSide}, dtype_,
                                MemoryFormat::kChannelsLast, device_);
  table_.record_use(stream);
  cuda::augment({.out = images.raw_data(),
                 .planes = planes,
                 .table = table_.data(),
                 .draws = draws.as<AugmentDraw>(),
                 .n = n,
                 .height = kImageSide,
                 .width = kImageSide,
                 .cutout = cutout_,
                 .dtype = dtype_,
                 .indices = indices},
                stream);
  return images;
}

}  // namespace heddle::detail
