#include "heddle/data/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "heddle/kernels/host/parallel_for.h"

namespace heddle {
namespace {

using Colour = std::array<float, 3>;
constexpr int64_t kTrainSize = 50'000;
constexpr int64_t kTestSize = 10'000;
constexpr int64_t kGrain = 64;  // pictures a piece: about 2 ms

/// Signed distance from the border of a shape of about unit radius, negative inside.
float disc(float u, float v) { return std::sqrt(u * u + v * v) - 0.9F; }
float square(float u, float v) { return std::max(std::abs(u), std::abs(v)) - 0.8F; }
float triangle(float u, float v) { return std::max(std::abs(u) * 0.866F - v * 0.5F, v) - 0.55F; }
float ring(float u, float v) { return std::abs(std::sqrt(u * u + v * v) - 0.72F) - 0.22F; }
float cross(float u, float v) {
  const float upright = std::max(std::abs(u) - 0.3F, std::abs(v) - 0.95F);
  const float level = std::max(std::abs(u) - 0.95F, std::abs(v) - 0.3F);
  return std::min(upright, level);
}
float bars(float u, float v) {
  return std::max(std::abs(u) - 0.9F, std::abs(std::abs(v) - 0.58F) - 0.24F);
}
float frame(float u, float v) {
  return std::abs(std::max(std::abs(u), std::abs(v)) - 0.68F) - 0.2F;
}
float crescent(float u, float v) {
  const float bite = u - 0.5F;
  return std::max(std::sqrt(u * u + v * v) - 0.95F, 0.75F - std::sqrt(bite * bite + v * v));
}
float hourglass(float u, float v) {
  return std::max(std::abs(v) - 0.9F, (std::abs(u) - 0.95F * std::abs(v)) * 0.725F - 0.06F);
}
float tee(float u, float v) {
  const float bar = std::max(std::abs(u) - 0.9F, std::abs(v + 0.65F) - 0.26F);
  const float stem = std::max(std::abs(u) - 0.26F, std::abs(v) - 0.91F);
  return std::min(bar, stem);
}

using Distance = float (*)(float, float);
constexpr std::array<Distance, kSyntheticClasses> kShapes = {
    disc, square, triangle, ring, cross, bars, frame, crescent, hourglass, tee};

float between(Rng& rng, float low, float high) { return low + (high - low) * rng.next_uniform(); }

Colour random_colour(Rng& rng) {
  return {between(rng, 20, 235), between(rng, 20, 235), between(rng, 20, 235)};
}

/// A rotation by an angle of which `t` is the tangent of the half: no sine or cosine is needed.
struct Turn {
  float cosine;
  float sine;
  explicit Turn(float t) : cosine((1 - t * t) / (1 + t * t)), sine(2 * t / (1 + t * t)) {}
};

/// Stripes in any direction: a triangle wave between -amplitude and amplitude.
struct Stripes {
  float dx, dy, phase, amplitude;

  Stripes(Rng& rng, float low, float high) {
    const Turn turn(between(rng, -1, 1));
    const float frequency = between(rng, 0.08F, 0.28F);  // cycles a pixel
    dx = frequency * turn.cosine;
    dy = frequency * turn.sine;
    phase = rng.next_uniform() + 16.0F;  // keeps the sum positive, so that truncation floors
    amplitude = between(rng, low, high);
  }
  float at(float x, float y) const {
    const float cycles = x * dx + y * dy + phase;
    const float part = cycles - static_cast<float>(static_cast<int>(cycles));
    return amplitude * (4 * std::abs(part - 0.5F) - 1);
  }
};

/// A canvas of floats 0 .. 255, planes as in the record.
class Canvas {
 public:
  void background(Rng& rng, const Colour& base) {
    const Stripes stripes(rng, 5, 28);
    const Colour slope_x = slope(rng);
    const Colour slope_y = slope(rng);
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const float fx = static_cast<float>(x);
        const float fy = static_cast<float>(y);
        const float wave = stripes.at(fx, fy);
        for (int c = 0; c < 3; ++c)
          at(c, y, x) = base[c] + wave + slope_x[c] * (fx - 15.5F) + slope_y[c] * (fy - 15.5F);
      }
    }
  }

  /// A small thing that means nothing: a blob or a stroke.
  void clutter(Rng& rng) {
    const Colour colour = random_colour(rng);
    const float cx = between(rng, 0, 31);
    const float cy = between(rng, 0, 31);
    const Turn turn(between(rng, -1, 1));
    const float length = between(rng, 1.0F, 7.0F);
    const float width = between(rng, 0.7F, 2.0F);
    const float opacity = between(rng, 0.4F, 0.9F);
    paint(cx, cy, length + width + 1, [&](float x, float y, Colour& out) {
      const float along = x * turn.cosine + y * turn.sine;
      const float across = y * turn.cosine - x * turn.sine;
      const float rest = along - std::clamp(along, -length, length);
      const float alpha = cover(std::sqrt(rest * rest + across * across) - width) * opacity;
      if (alpha > 0) out = colour;
      return alpha;
    });
  }

  void shape(Rng& rng, Distance distance, const Colour& colour) {
    const float radius = between(rng, 8.0F, 11.0F);
    const float cx = 15.5F + between(rng, -2.5F, 2.5F);
    const float cy = 15.5F + between(rng, -2.5F, 2.5F);
    const Turn turn(between(rng, -0.14F, 0.14F));  // about 16 degrees either way
    const float stretch = between(rng, 0.85F, 1.15F);
    const Stripes stripes(rng, 5, 35);
    paint(cx, cy, radius * 1.6F, [&](float x, float y, Colour& out) {
      const float u = (x * turn.cosine + y * turn.sine) * stretch / radius;
      const float v = (y * turn.cosine - x * turn.sine) / (stretch * radius);
      const float alpha = cover(distance(u, v) * radius);
      if (alpha <= 0) return alpha;
      const float wave = stripes.at(x, y);
      out = {colour[0] + wave, colour[1] + wave, colour[2] + wave};
      return alpha;
    });
  }

  void write(const Rng& noise, std::span<uint8_t, kImageBytes> planes) const {
    constexpr uint32_t kNoiseBlocks = kImageBytes / 16;  // a block of four words: 16 bytes
    constexpr float kNoise = 0.18F;                      // of a byte: up to 23 either way
    for (uint32_t i = 0; i < kNoiseBlocks; ++i) {
      const std::array<uint32_t, 4> words = noise.block(i);
      for (uint32_t j = 0; j < 16; ++j) {
        const size_t place = i * 16 + j;
        const auto byte = static_cast<float>((words[j / 4] >> (8 * (j % 4))) & 255U);
        const float value = pixels_[place] + (byte - 127.5F) * kNoise;
        planes[place] = static_cast<uint8_t>(std::clamp(value, 0.0F, 255.0F));
      }
    }
  }

 private:
  static constexpr int kSide = kImageSide;

  float& at(int c, int y, int x) {
    return pixels_[static_cast<size_t>((c * kSide + y) * kSide + x)];
  }
  static Colour slope(Rng& rng) {
    return {between(rng, -1.5F, 1.5F), between(rng, -1.5F, 1.5F), between(rng, -1.5F, 1.5F)};
  }
  /// Share of a pixel that is covered where the border is `distance` pixels away.
  static float cover(float distance) { return std::clamp(0.5F - distance, 0.0F, 1.0F); }

  /// Blends in what `brush(x, y, colour)` (relative to the centre) puts on each pixel near it.
  template <class Brush>
  void paint(float cx, float cy, float reach, const Brush& brush) {
    const int top = std::max(0, static_cast<int>(cy - reach));
    const int bottom = std::min(kSide, static_cast<int>(cy + reach) + 2);
    const int left = std::max(0, static_cast<int>(cx - reach));
    const int right = std::min(kSide, static_cast<int>(cx + reach) + 2);
    for (int y = top; y < bottom; ++y) {
      for (int x = left; x < right; ++x) {
        Colour colour{};
        const float alpha = brush(static_cast<float>(x) - cx, static_cast<float>(y) - cy, colour);
        if (alpha <= 0) continue;
        for (int c = 0; c < 3; ++c)
          at(c, y, x) += alpha * (colour[static_cast<size_t>(c)] - at(c, y, x));
      }
    }
  }

  std::array<float, kImageBytes> pixels_;
};

/// A colour that can be told from `other`: brighter or darker by a good step, either way round.
Colour contrasting_colour(Rng& rng, const Colour& other) {
  const auto brightness = [](const Colour& c) { return 0.3F * c[0] + 0.59F * c[1] + 0.11F * c[2]; };
  Colour colour = random_colour(rng);
  for (int tries = 0; tries < 16 && std::abs(brightness(colour) - brightness(other)) < 60; ++tries)
    colour = random_colour(rng);
  return colour;
}

}  // namespace

int64_t draw_synthetic(uint64_t seed, Split split, int64_t index,
                       std::span<uint8_t, kImageBytes> planes) {
  const auto set = static_cast<uint32_t>(split);
  Rng rng(seed, RngPurpose::kSynthetic, static_cast<uint64_t>(index), 2 * set);
  const int64_t label = index % kSyntheticClasses;
  Canvas canvas;
  const Colour base = random_colour(rng);
  canvas.background(rng, base);
  const uint32_t behind = 3 + rng.next_below(5);
  for (uint32_t i = 0; i < behind; ++i) canvas.clutter(rng);
  canvas.shape(rng, kShapes[static_cast<size_t>(label)], contrasting_colour(rng, base));
  const uint32_t before = rng.next_below(2);
  for (uint32_t i = 0; i < before; ++i) canvas.clutter(rng);
  canvas.write(Rng(seed, RngPurpose::kSynthetic, static_cast<uint64_t>(index), 2 * set + 1),
               planes);
  return label;
}

Synthetic::Synthetic(Split split, const SyntheticOptions& options)
    : size_(options.size > 0         ? options.size
            : split == Split::kTrain ? kTrainSize
                                     : kTestSize) {
  HEDDLE_CHECK(options.size >= 0, "synthetic: size is {}, expected 0 (as CIFAR-10) or more",
               options.size);
  auto planes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(size_ * kImageBytes));
  parallel_ranges(size_, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint8_t* place = planes->data() + i * kImageBytes;
      draw_synthetic(options.seed, split, i, std::span<uint8_t, kImageBytes>(place, kImageBytes));
    }
  });
  planes_ = std::move(planes);
}

ImageRecord Synthetic::record(int64_t index) const {
  HEDDLE_CHECK(index >= 0 && index < size_, "synthetic: sample {} of {}", index, size_);
  return {planes_->data() + index * kImageBytes, index % kSyntheticClasses};
}

std::vector<std::string> Synthetic::class_names() const {
  return {"disc", "square", "triangle", "ring",      "cross",
          "bars", "frame",  "crescent", "hourglass", "tee"};
}

}  // namespace heddle
