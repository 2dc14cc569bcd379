#include "heddle/kernels/augment.h"

#include "heddle/data/transforms.h"
#include "heddle/kernels/augment_draws.h"
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

/// A batch gathered out of a set, as a loader with a resident set does it: labels, draws and
/// pictures are those of Rng and of ImageTransform.
template <class T>
void check_gather(const TransformOptions& options, const std::vector<int64_t>& order) {
  const DType dtype = dtype_of<T>;
  const auto n = static_cast<int64_t>(order.size());
  CAPTURE(name_of(dtype), n, options.crop_padding, options.flip, options.cutout);
  const ImageTransform transform(options);
  Mirror planes(DType::kUInt8, {kPictures, 3, 32, 32}), table(dtype, {3, 256});
  Mirror set_labels(DType::kInt64, {kPictures}), labels(DType::kInt64, {n});
  Mirror indices(DType::kInt64, {n}), out(dtype, {n, 32, 32, 3});
  Mirror draws(DType::kUInt8, {n * static_cast<int64_t>(sizeof(AugmentDraw))});
  planes.fill_random(43, 0.0, 255.0);
  set_labels.fill([](int64_t i) { return static_cast<double>(i % 10); });
  std::memcpy(table.host_data(), transform.table<T>(), 3 * 256 * sizeof(T));
  table.upload();
  if (n > 0) std::memcpy(indices.host_data(), order.data(), order.size() * sizeof(int64_t));
  indices.upload();
  const Rng first(44, RngPurpose::kAugment, 0, 7);
  AugmentDrawsArgs args{draws.host_as<AugmentDraw>(),
                        labels.host_as<int64_t>(),
                        indices.host_as<int64_t>(),
                        set_labels.host_as<int64_t>(),
                        n,
                        transform.ranges(),
                        first};
  cpu::augment_draws(args);
  for (int64_t i = 0; i < n; ++i) {
    Rng rng(44, RngPurpose::kAugment, static_cast<uint64_t>(order[static_cast<size_t>(i)]), 7);
    const AugmentDraw expected = transform.draw(rng);
    CHECK(std::memcmp(&expected, args.draws + i, sizeof expected) == 0);
  }
  args.draws = draws.device_as<AugmentDraw>();
  args.labels = labels.device_as<int64_t>();
  args.indices = indices.device_as<int64_t>();
  args.set_labels = set_labels.device_as<int64_t>();
  cuda::augment_draws(args, test_stream());
  CHECK_SAME_BITS(draws);
  CHECK_SAME_BITS(labels);

  AugmentArgs gather{out.host_data(),
                     planes.host_as<uint8_t>(),
                     table.host_data(),
                     draws.host_as<AugmentDraw>(),
                     n,
                     32,
                     32,
                     options.cutout,
                     dtype,
                     indices.host_as<int64_t>()};
  cpu::augment(gather);
  gather = {out.device_data(),
            planes.device_as<uint8_t>(),
            table.device_data(),
            args.draws,
            n,
            32,
            32,
            options.cutout,
            dtype,
            args.indices};
  cuda::augment(gather, test_stream());
  CHECK_SAME_BITS(out);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = order[static_cast<size_t>(i)];
    CHECK(labels.host_as<int64_t>()[i] == set_labels.host_as<int64_t>()[index]);
    Rng rng = first.after(index);
    std::vector<T> expected(32 * 32 * 3);
    transform.apply(planes.host_as<uint8_t>() + index * 3072, rng, expected.data());
    CHECK(std::memcmp(expected.data(), out.host_as<T>() + i * 3072, 3072 * sizeof(T)) == 0);
  }
}

TEST_CASE("a batch out of a set on a device has the bits of the loader's", "[augment]") {
  std::vector<int64_t> many;
  for (int64_t i = 0; i < 131; ++i) many.push_back((i * 5) % kPictures);
  for (const TransformOptions& options :
       {TransformOptions{}, TransformOptions{.flip = true},
        TransformOptions{.crop_padding = 4, .flip = true, .cutout = 8}}) {
    for (const std::vector<int64_t>& order :
         {std::vector<int64_t>{}, std::vector<int64_t>{8, 0, 3}, many})
      check_gather<float>(options, order);
    check_gather<BFloat16>(options, {2, 7});
  }
}

TEST_CASE("draws below a bound are Rng's, rejected words too", "[augment]") {
  // A third of all words are rejected for 2^32 / 3 rounded up.
  const Rng stream(1, RngPurpose::kUser);
  for (const int32_t bound : {1, 9, 32, 1'431'655'766, INT32_MAX}) {
    CAPTURE(bound);
    Rng rng = stream;
    RngWords words{stream};
    for (int i = 0; i < 100; ++i)
      CHECK(draw_below(bound, words) ==
            static_cast<int32_t>(rng.next_below(static_cast<uint32_t>(bound))));
  }
}

}  // namespace
}  // namespace heddle
