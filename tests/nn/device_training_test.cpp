// Training on a CUDA device, cudasim's with all its checks or a real one, against the CPU.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>

#include "heddle/data/cifar10.h"
#include "heddle/data/synthetic.h"
#include "heddle/kernels/provider.h"
#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/models/simple_cnn.h"
#include "heddle/nn/modules/conv2d.h"
#include "heddle/nn/modules/linear.h"
#include "heddle/nn/modules/sequential.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/optim/adam.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/device.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle {
namespace {

using testing::test_device;

constexpr int64_t kBatch = 8;

/// Real pictures where HEDDLE_DATA has them, else drawn ones.
std::unique_ptr<ImageDataset> pictures() {
  const char* root = std::getenv("HEDDLE_DATA");
  const auto folder = std::filesystem::path(root != nullptr ? root : "") / "cifar-10-batches-bin";
  if (root != nullptr && std::filesystem::exists(folder / "data_batch_1.bin"))
    return std::make_unique<Cifar10>(folder, Split::kTrain);
  return std::make_unique<Synthetic>(Split::kTrain, SyntheticOptions{.size = 64});
}

struct Examples {
  Tensor images, labels;
};

/// The middle `side` x `side` pixels of batch number `step`, in [-1, 1].
Examples batch_of(const ImageDataset& dataset, int64_t step, int64_t side, int64_t batch) {
  std::vector<float> values;
  std::vector<int64_t> labels;
  const int64_t first = (kImageSide - side) / 2;
  for (int64_t i = 0; i < batch; ++i) {
    const ImageRecord record = dataset.record((step * batch + i) % dataset.size());
    labels.push_back(record.label);
    for (int64_t plane = 0; plane < kImageChannels; ++plane)
      for (int64_t row = first; row < first + side; ++row)
        for (int64_t col = first; col < first + side; ++col)
          values.push_back(
              static_cast<float>(record.planes[(plane * kImageSide + row) * kImageSide + col]) /
                  127.5F -
              1.0F);
  }
  return {Tensor::from(values, {batch, kImageChannels, side, side}), Tensor::from(labels, {batch})};
}

/// SimpleCnn's structure with an eighth of its channels, for pictures of 8 x 8.
Sequential small_simple_cnn() {
  return Sequential(Conv2d(3, 4, 3, {.padding = 1, .fuse_relu = true}),
                    Conv2d(4, 8, 3, {.padding = 1, .fuse_relu = true}),
                    Linear(ImageSize{8, 8, 8}, 16, {.fuse_relu = true}), Linear(16, 10));
}

/// The losses of `steps` steps from the same initial weights.
std::vector<double> losses_of(Module& model, Device device, DType dtype, int64_t steps,
                              int64_t side, int64_t batch) {
  const std::unique_ptr<ImageDataset> dataset = pictures();
  model.to(device);
  Adam adam(model.parameters(), {.lr = 1e-2});
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    const Autocast scope(dtype);
    const Examples examples = batch_of(*dataset, step, side, batch);
    adam.zero_grad();
    const Tensor loss =
        cross_entropy(model(to(examples.images, device)), to(examples.labels, device));
    loss.backward();
    adam.step();
    losses.push_back(loss.item());
  }
  return losses;
}

std::vector<double> small_losses(Device device, DType dtype, int64_t steps) {
  manual_seed(11);
  Sequential model = small_simple_cnn();
  return losses_of(model, device, dtype, steps, 8, kBatch);
}

void check_follows(const std::vector<double>& losses, const std::vector<double>& expected,
                   double tolerance) {
  REQUIRE(losses.size() == expected.size());
  for (size_t step = 0; step < losses.size(); ++step) {
    INFO("step " << step);
    CHECK(losses[step] == Approx(expected[step]).epsilon(tolerance));
  }
}

/// Rounded weights part ways as steps go on: the tolerance is that of five.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 5e-3;
    case DType::kBFloat16:
      return 3e-2;
    default:
      return 1e-4;
  }
}

void check_small_training(Provider provider) {
  const test::ProviderScope scope(provider);
  const int64_t findings = testing::count_findings();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    INFO(name_of(provider) << ", " << name_of(dtype));
    const std::vector<double> expected = small_losses(Device::cpu(), dtype, 5);
    const std::vector<double> losses = small_losses(test_device(), dtype, 5);
    check_follows(losses, expected, tolerance_of(dtype));
    CHECK(std::adjacent_find(losses.begin(), losses.end(), std::not_equal_to<>()) != losses.end());
    CHECK(small_losses(test_device(), dtype, 2) ==
          std::vector<double>(losses.begin(), losses.begin() + 2));  // the same bits again
  }
  CHECK(testing::count_findings() == findings);
}

TEST_CASE("training: a small SimpleCnn on a device follows the CPU, by native kernels",
          "[device]") {
  check_small_training(Provider::kNative);
}

TEST_CASE("training: a small SimpleCnn on a device follows the CPU, by the vendor's libraries",
          "[device]") {
  if (!built_with_vendor()) {
    WARN("skipped: built without vendor libraries");
    return;
  }
  check_small_training(Provider::kVendor);
}

TEST_CASE("training: a step of the whole SimpleCnn on a device follows the CPU", "[device][slow]") {
  const test::ProviderScope scope(Provider::kNative);
  const testing::ChecksOff checks_off;
  const auto step_on = [](Device device) {
    manual_seed(11);
    SimpleCnn model;
    return losses_of(model, device, DType::kFloat32, 1, kImageSide, 4);
  };
  check_follows(step_on(test_device()), step_on(Device::cpu()), 1e-4);
}

}  // namespace
}  // namespace heddle
