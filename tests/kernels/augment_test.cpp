#include "heddle/kernels/augment.h"

#include "heddle/data/transforms.h"
#include "heddle/tests/kernels/mirror.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using namespace testing;

constexpr int64_t kPictures = 9;

template <class T>
void check_augment(const TransformOptions& options) {
  const DType dtype = dtype_of<T>;
  CAPTURE(name_of(dtype), options.crop_padding, options.flip, options.cutout);
  const ImageTransform transform(options);
  Mirror planes(DType::kUInt8, {kPictures, 3, 32, 32}), table(dtype, {3, 256});
  Mirror draws(DType::kUInt8, {kPictures * static_cast<int64_t>(sizeof(AugmentDraw))});
  Mirror out(dtype, {kPictures, 32, 32, 3});
  planes.fill_random(41, 0.0, 255.0);
  std::memcpy(table.host_data(), transform.table<T>(), 3 * 256 * sizeof(T));
  table.upload();
  for (int64_t i = 0; i < kPictures; ++i) {
    Rng rng(42, RngPurpose::kAugment, 1, static_cast<uint32_t>(i));
    draws.host_as<AugmentDraw>()[i] = transform.draw(rng);
  }
  draws.upload();

  cpu::augment({out.host_data(), planes.host_as<uint8_t>(), table.host_data(),
                draws.host_as<AugmentDraw>(), kPictures, 32, 32, options.cutout, dtype});
  cuda::augment({out.device_data(), planes.device_as<uint8_t>(), table.device_data(),
                 draws.device_as<AugmentDraw>(), kPictures, 32, 32, options.cutout, dtype},
                test_stream());
  CHECK_SAME_BITS(out);
  for (int64_t i = 0; i < kPictures; ++i) {
    Rng rng(42, RngPurpose::kAugment, 1, static_cast<uint32_t>(i));
    std::vector<T> expected(32 * 32 * 3);
    transform.apply(planes.host_as<uint8_t>() + i * 3072, rng, expected.data());
    CHECK(std::memcmp(expected.data(), out.host_as<T>() + i * 3072, 3072 * sizeof(T)) == 0);
  }
}

TEST_CASE("augmentation on a device has the bits of the loader's", "[augment]") {
  for (const TransformOptions& options :
       {TransformOptions{}, TransformOptions{.crop_padding = 4},
        TransformOptions{.crop_padding = 32, .flip = true}, TransformOptions{.flip = true},
        TransformOptions{.crop_padding = 4, .flip = true, .cutout = 16},
        TransformOptions{.cutout = 7}, TransformOptions{.flip = true, .cutout = 64}}) {
    check_augment<float>(options);
    check_augment<BFloat16>(options);
  }
}

}  // namespace
}  // namespace heddle
