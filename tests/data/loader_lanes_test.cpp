// One loader for several devices: each gets rows of its own.
#include <algorithm>
#include <vector>

#include "heddle/data/loader.h"
#include "heddle/data/synthetic.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

/// Seven samples, each with its number as label.
class Labels : public Dataset {
 public:
  int64_t size() const override { return 7; }
  Sample get(int64_t index) const override { return {Tensor::from<float>({0.0F}, {1}), index}; }
};

TEST_CASE("loader: lanes get their own rows of every batch, the same for any workers and lanes") {
  const Synthetic set(Split::kTrain, {.size = 23});
  LoaderOptions options{.batch_size = 5, .shuffle = true, .seed = 4, .transform = {.flip = true}};
  Loader whole(set, options);
  std::vector<Batch> expected;
  for (const Batch& batch : whole) expected.push_back(batch);
  const auto uneven = [](int64_t n) { return std::vector<int64_t>{0, n / 4, n - n / 4}; };
  for (const int workers : {0, 2}) {
    for (const size_t lanes : {1, 2, 3, 8}) {
      options.workers = workers;
      options.lanes = std::vector<Device>(lanes, Device::cpu());
      options.split = lanes == 3 ? uneven : decltype(options.split)();
      Loader loader(set, options);
      for (const Batch& batch : loader) {
        const Batch& same = expected[static_cast<size_t>(batch.position)];
        REQUIRE(batch.indices == same.indices);
        REQUIRE(batch.parts.size() == lanes);
        const std::vector<float> images = same.images.to_vector<float>();
        const std::vector<int64_t> labels = same.labels.to_vector<int64_t>();
        int64_t row = 0;
        for (const BatchPart& part : batch.parts) {
          REQUIRE(part.first_row == row);
          if (part.size() == 0) continue;
          const std::vector<float> mine = part.images.to_vector<float>();
          REQUIRE(std::equal(mine.begin(), mine.end(), images.begin() + row * kImageBytes));
          REQUIRE(part.labels.to_vector<int64_t>() ==
                  std::vector<int64_t>(labels.begin() + row, labels.begin() + row + part.size()));
          row += part.size();
        }
        REQUIRE(row == same.size());
      }
    }
  }
}

TEST_CASE("loader: lanes of a dataset of samples") {
  Loader loader(
      Labels(),
      {.batch_size = 4, .workers = 1, .lanes = {Device::cpu(), Device::cpu(), Device::cpu()}});
  std::vector<std::vector<int64_t>> labels;
  for (const Batch& batch : loader)
    for (const BatchPart& part : batch.parts) labels.push_back(part.labels.to_vector<int64_t>());
  REQUIRE(labels == std::vector<std::vector<int64_t>>{{0, 1}, {2}, {3}, {4}, {5}, {6}});
}

}  // namespace
}  // namespace heddle
