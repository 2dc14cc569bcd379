// How hard the generated pictures are: a linear model must fail on them, a small CNN must not.
#include "heddle/core/tape.h"
#include "heddle/data/loader.h"
#include "heddle/data/synthetic.h"
#include "heddle/nn/modules/activation.h"
#include "heddle/nn/modules/conv2d.h"
#include "heddle/nn/modules/linear.h"
#include "heddle/nn/modules/sequential.h"
#include "heddle/nn/optim/adam.h"
#include "heddle/tests/support/catch.h"

using heddle::Batch;
using heddle::Conv2d;
using heddle::Linear;
using heddle::Loader;
using heddle::Sequential;
using heddle::Split;
using heddle::Synthetic;
using heddle::Tensor;

namespace {

double accuracy(heddle::Module& model, Loader& loader) {
  const heddle::NoGradGuard guard;
  int64_t right = 0;
  for (const Batch& batch : loader) {
    const auto guesses = heddle::argmax(model(batch.images), 1).to_vector<int64_t>();
    const auto labels = batch.labels.to_vector<int64_t>();
    for (size_t i = 0; i < labels.size(); ++i) right += guesses[i] == labels[i] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(loader.n_samples());
}

/// The best of `epochs` epochs, or of those up to the first that is better than `enough`.
double accuracy_after_training(Sequential& model, int64_t size, int epochs, double enough = 1.0) {
  Loader train(Synthetic(Split::kTrain, {.size = size}),
               {.batch_size = 64, .shuffle = true, .seed = 1});
  Loader test(Synthetic(Split::kTest, {.size = 2000}), {.batch_size = 250});
  heddle::Adam adam(model.parameters(), {.lr = 1e-3});
  double best = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const Batch& batch : train) {
      adam.zero_grad();
      heddle::cross_entropy(model(batch.images), batch.labels).backward();
      adam.step();
    }
    best = std::max(best, accuracy(model, test));
    UNSCOPED_INFO("epoch " << epoch << ": best accuracy " << best);
    if (best > enough) break;
  }
  return best;
}

}  // namespace

TEST_CASE("synthetic: a linear model learns little", "[slow]") {
  heddle::manual_seed(1);
  Sequential model(Linear(heddle::ImageSize{3, 32, 32}, 10));
  REQUIRE(accuracy_after_training(model, 10'000, 4) < 0.6);
}

TEST_CASE("synthetic: a small CNN learns it", "[slow]") {
  heddle::manual_seed(1);
  Sequential model(Conv2d(3, 16, 3, {.stride = 2, .padding = 1, .fuse_relu = true}),
                   Conv2d(16, 32, 3, {.stride = 2, .padding = 1, .fuse_relu = true}),
                   Conv2d(32, 64, 3, {.stride = 2, .padding = 1, .fuse_relu = true}),
                   Linear(heddle::ImageSize{64, 4, 4}, 64, {.fuse_relu = true}), Linear(64, 10));
  REQUIRE(accuracy_after_training(model, 30'000, 4, 0.9) > 0.9);
}
