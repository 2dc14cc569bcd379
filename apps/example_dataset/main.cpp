// A dataset of one's own, read by two worker threads. docs/extending.md explains it.
#include <heddle/heddle.h>

#include <iostream>

namespace {

using heddle::Tensor;

class Ramps : public heddle::Dataset {
 public:
  int64_t size() const override { return 1000; }
  heddle::Sample get(int64_t index) const override {
    const float slope = static_cast<float>(index % 10) / 10.0F;
    return {.value = Tensor::from<float>({0.0F, slope, 2 * slope}, {3}), .label = index % 10};
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    std::cerr << "example_dataset: \"" << argv[1] << "\" is not allowed, expected no arguments\n";
    return 2;
  }
  heddle::Loader loader(Ramps(), {.batch_size = 64, .shuffle = true, .workers = 2});
  int64_t samples = 0, batches = 0;
  for (const heddle::Batch& batch : loader) {
    samples += batch.size();
    ++batches;
    if (batch.images.at({0, 2}) != 2 * batch.images.at({0, 1})) return 1;
  }
  std::cout << samples << " samples in " << batches << " batches\n";
  return samples == 1000 && batches == 16 ? 0 : 1;
}
