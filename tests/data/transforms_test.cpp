#include "heddle/data/transforms.h"

#include <limits>
#include <set>

#include "heddle/tests/support/catch.h"

using heddle::BFloat16;
using heddle::ImageTransform;
using heddle::kImageBytes;
using heddle::kImagePixels;
using heddle::Rng;
using heddle::RngPurpose;
using heddle::TransformOptions;

namespace {

constexpr TransformOptions kOnlyScale = {.mean = {0, 0, 0}, .std = {1, 1, 1}};

Rng rng_for(uint64_t sample) { return Rng(11, RngPurpose::kAugment, sample, 0); }

/// A picture in which every byte tells its place: no two of a plane's neighbours are equal.
std::vector<uint8_t> picture() {
  std::vector<uint8_t> planes(static_cast<size_t>(kImageBytes));
  for (size_t i = 0; i < planes.size(); ++i)
    planes[i] = static_cast<uint8_t>((i * 37 + i / 32 * 11 + i / 1024 * 101) % 255 + 1);
  return planes;
}

std::vector<float> transformed(const TransformOptions& options, uint64_t sample) {
  std::vector<float> out(static_cast<size_t>(kImageBytes));
  Rng rng = rng_for(sample);
  ImageTransform(options).apply(picture().data(), rng, out.data());
  return out;
}

/// The value written apart: pad, cut, mirror, scale, normalise, as torchvision's transforms do.
float expected_at(const TransformOptions& options, int down, int right, bool flip, int c, int y,
                  int x) {
  static const std::vector<uint8_t> planes = picture();
  const auto channel = static_cast<size_t>(c);
  const int from_x = (flip ? 31 - x : x) + right;
  const int from_y = y + down;
  const bool inside = from_x >= 0 && from_x < 32 && from_y >= 0 && from_y < 32;
  const int byte = inside ? planes[static_cast<size_t>((c * 32 + from_y) * 32 + from_x)] : 0;
  return (static_cast<float>(byte) / 255.0F - options.mean[channel]) / options.std[channel];
}

bool equals(const std::vector<float>& out, const TransformOptions& options, int down, int right,
            bool flip) {
  for (int y = 0; y < 32; ++y)
    for (int x = 0; x < 32; ++x)
      for (int c = 0; c < 3; ++c)
        if (out[static_cast<size_t>((y * 32 + x) * 3 + c)] !=
            expected_at(options, down, right, flip, c, y, x))
          return false;
  return true;
}

}  // namespace

TEST_CASE("transforms: bytes are scaled to [0, 1], never negative (DS-3)") {
  std::vector<uint8_t> planes(static_cast<size_t>(kImageBytes), 0);
  planes[1] = 127;
  planes[2] = 128;
  planes[3] = 255;
  std::vector<float> out(planes.size());
  Rng rng = rng_for(0);
  ImageTransform(kOnlyScale).apply(planes.data(), rng, out.data());
  REQUIRE(out[0] == 0.0F);
  REQUIRE(out[3] == Approx(0.498039).epsilon(1e-5));
  REQUIRE(out[6] == Approx(0.501961).epsilon(1e-5));
  REQUIRE(out[9] == 1.0F);
}

TEST_CASE("transforms: normalise interleaves the planes") {
  REQUIRE(equals(transformed({}, 0), {}, 0, 0, false));
}

TEST_CASE("transforms: crop and flip equal a slow version for the draws made") {
  const TransformOptions options = {.crop_padding = 4, .flip = true};
  std::set<int> seen_down, seen_right, seen_flip;
  for (uint64_t sample = 0; sample < 200; ++sample) {
    Rng rng = rng_for(sample);
    const int down = static_cast<int>(rng.next_below(9)) - 4;
    const int right = static_cast<int>(rng.next_below(9)) - 4;
    const bool flip = (rng.next() >> 31) != 0;
    REQUIRE(equals(transformed(options, sample), options, down, right, flip));
    seen_down.insert(down);
    seen_right.insert(right);
    seen_flip.insert(flip);
  }
  REQUIRE(seen_down.size() == 9);
  REQUIRE(seen_right.size() == 9);
  REQUIRE(seen_flip.size() == 2);
}

TEST_CASE("transforms: the widest padding stays inside its memory") {
  const TransformOptions options = {.crop_padding = 32, .flip = true};
  for (uint64_t sample = 0; sample < 500; ++sample) {
    Rng rng = rng_for(sample);
    const int down = static_cast<int>(rng.next_below(65)) - 32;
    const int right = static_cast<int>(rng.next_below(65)) - 32;
    const bool flip = (rng.next() >> 31) != 0;
    REQUIRE(equals(transformed(options, sample), options, down, right, flip));
  }
}

TEST_CASE("transforms: about half of the pictures are mirrored") {
  int mirrored = 0;
  for (uint64_t sample = 0; sample < 400; ++sample)
    mirrored += equals(transformed({.flip = true}, sample), {}, 0, 0, true) ? 1 : 0;
  REQUIRE(mirrored > 160);
  REQUIRE(mirrored < 240);
}

TEST_CASE("transforms: cutout zeroes one square") {
  for (uint64_t sample = 0; sample < 50; ++sample) {
    const std::vector<float> out = transformed({.cutout = 8}, sample);
    const std::vector<float> whole = transformed({}, sample);
    Rng rng = rng_for(sample);
    const int row = static_cast<int>(rng.next_below(32));
    const int column = static_cast<int>(rng.next_below(32));
    for (int i = 0; i < 32 * 32; ++i) {
      const int y = i / 32 - (row - 4);
      const int x = i % 32 - (column - 4);
      const bool cut = y >= 0 && y < 8 && x >= 0 && x < 8;
      for (size_t c = 0; c < 3; ++c) {
        const size_t place = static_cast<size_t>(i) * 3 + c;
        REQUIRE(out[place] == (cut ? 0.0F : whole[place]));
      }
    }
  }
}

TEST_CASE("transforms: bfloat16 is the float32 value rounded once") {
  const TransformOptions options = {.crop_padding = 4, .flip = true, .cutout = 4};
  std::vector<BFloat16> out(static_cast<size_t>(kImageBytes));
  Rng rng = rng_for(3);
  ImageTransform(options).apply(picture().data(), rng, out.data());
  const std::vector<float> wide = transformed(options, 3);
  for (size_t i = 0; i < out.size(); ++i) REQUIRE(out[i].bits == BFloat16(wide[i]).bits);
}

TEST_CASE("transforms: impossible options are errors") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  REQUIRE_THROWS_WITH(ImageTransform({.std = {1, 0, 1}}),
                      ContainsSubstring("std of channel 1 is 0"));
  REQUIRE_THROWS_WITH(ImageTransform({.std = {1, 1, nan}}), ContainsSubstring("std of channel 2"));
  REQUIRE_THROWS_WITH(ImageTransform({.mean = {nan, 0, 0}}),
                      ContainsSubstring("mean of channel 0"));
  REQUIRE_THROWS_WITH(ImageTransform({.crop_padding = 33}), ContainsSubstring("padding is 33"));
  REQUIRE_THROWS_WITH(ImageTransform({.crop_padding = -1}), ContainsSubstring("padding is -1"));
  REQUIRE_THROWS_WITH(ImageTransform({.cutout = 65}), ContainsSubstring("cutout is 65"));
}
