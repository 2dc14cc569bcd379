#include "heddle/data/synthetic.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "heddle/kernels/host/parallel_for.h"
#include "heddle/tests/support/catch.h"

using heddle::kImageBytes;
using heddle::Split;
using heddle::Synthetic;

namespace {

std::vector<uint8_t> bytes(const Synthetic& set, int64_t index) {
  const uint8_t* planes = set.record(index).planes;
  return {planes, planes + kImageBytes};
}

std::vector<uint8_t> alone(uint64_t seed, Split split, int64_t index) {
  std::vector<uint8_t> planes(static_cast<size_t>(kImageBytes));
  heddle::draw_synthetic(seed, split, index, std::span<uint8_t, kImageBytes>(planes));
  return planes;
}

}  // namespace

TEST_CASE("synthetic: a picture is a function of seed, split and index") {
  const Synthetic set(Split::kTrain, {.seed = 4, .size = 150});
  for (const int64_t i : {0, 1, 63, 64, 149}) REQUIRE(bytes(set, i) == alone(4, Split::kTrain, i));
  REQUIRE(alone(4, Split::kTrain, 0) != alone(5, Split::kTrain, 0));
  REQUIRE(alone(4, Split::kTrain, 0) != alone(4, Split::kTest, 0));
  REQUIRE(alone(4, Split::kTrain, 0) != alone(4, Split::kTrain, 10));
  REQUIRE_THROWS_WITH(set.record(150), ContainsSubstring("sample 150 of 150"));
  REQUIRE_THROWS_WITH(Synthetic(Split::kTest, {.size = -1}), ContainsSubstring("size is -1"));
}

TEST_CASE("synthetic: the bytes are the same on every machine") {
  uint64_t hash = 1469598103934665603U;  // FNV-1a over twenty pictures
  for (int64_t i = 0; i < 20; ++i)
    for (const uint8_t byte : alone(0, Split::kTrain, i)) hash = (hash ^ byte) * 1099511628211U;
  REQUIRE(hash == 0x48d0d15274f4d0edU);
}

TEST_CASE("synthetic: ten classes, equally often, with names") {
  const Synthetic set(Split::kTest, {.size = 100});
  std::vector<int> counts(10);
  for (int64_t i = 0; i < set.size(); ++i) ++counts[static_cast<size_t>(set.record(i).label)];
  REQUIRE(counts == std::vector<int>(10, 10));
  const std::vector<std::string> names = set.class_names();
  REQUIRE(std::set<std::string>(names.begin(), names.end()).size() == 10);
}

TEST_CASE("synthetic: pictures are neither dark, bright nor flat") {
  const Synthetic set(Split::kTrain, {.seed = 2, .size = 500});
  double mean = 0;
  for (int64_t i = 0; i < set.size(); ++i) {
    const std::vector<uint8_t> picture = bytes(set, i);
    double sum = 0, square = 0;
    for (const uint8_t byte : picture) {
      sum += byte;
      square += byte * byte;
    }
    sum /= static_cast<double>(kImageBytes);
    const double deviation = std::sqrt(square / static_cast<double>(kImageBytes) - sum * sum);
    REQUIRE(deviation > 15);
    mean += sum / static_cast<double>(set.size());
  }
  REQUIRE(mean > 100);
  REQUIRE(mean < 155);
}

TEST_CASE("synthetic: no class can be told by its mean picture") {
  // What a linear model could use: how far class means lie apart, against the spread of a pixel.
  const Synthetic set(Split::kTrain, {.seed = 3, .size = 2000});
  std::vector<std::vector<double>> means(10, std::vector<double>(static_cast<size_t>(kImageBytes)));
  for (int64_t i = 0; i < set.size(); ++i) {
    const heddle::ImageRecord image = set.record(i);
    for (size_t j = 0; j < static_cast<size_t>(kImageBytes); ++j)
      means[static_cast<size_t>(image.label)][j] += image.planes[j] / 200.0;
  }
  for (size_t j = 0; j < static_cast<size_t>(kImageBytes); ++j) {
    double low = 255, high = 0;
    for (const auto& mean : means) {
      low = std::min(low, mean[j]);
      high = std::max(high, mean[j]);
    }
    REQUIRE(high - low < 45);  // a pixel's own deviation is about 65
  }
}
