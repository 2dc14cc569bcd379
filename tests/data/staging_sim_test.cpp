// Staging under every schedule of cudasim, with its check of order: nothing is read or overwritten
// too early, whenever copies and kernels run.
#include <algorithm>
#include <cmath>
#include <vector>

#include <cudasim/control.h>
#include <cudasim/order.h>
#include "heddle/data/loader.h"
#include "heddle/data/staging.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

const Device kFirst{DeviceType::kCuda, 0};
constexpr int64_t kBatchSize = 2;
constexpr int64_t kBatches = 64;
constexpr Staging kStagings[] = {Staging::kUint8, Staging::kFloat, Staging::kResident};

/// Picture i has the bytes i / kBatchSize, label that modulo 10: batch k is k all over.
class Stripes : public ImageDataset {
 public:
  Stripes() : planes_(kBatches * kImageBytes) {
    for (int64_t k = 0; k < kBatches; ++k)
      std::fill_n(planes_.begin() + k * kImageBytes, kImageBytes, static_cast<uint8_t>(k));
  }
  int64_t size() const override { return kBatches * kBatchSize; }
  ImageRecord record(int64_t index) const override {
    const int64_t k = index / kBatchSize;
    return {planes_.data() + k * kImageBytes, k % 10};
  }

 private:
  std::vector<uint8_t> planes_;
};

const std::shared_ptr<const Stripes>& stripes() {
  static const auto data = std::make_shared<const Stripes>();
  return data;
}

LoaderOptions plain(Staging staging, int workers) {
  return {.batch_size = kBatchSize,
          .workers = workers,
          .device = kFirst,
          .transform = {.mean = {0, 0, 0}, .std = {1, 1, 1}},
          .staging = staging};
}

bool is_batch(const Batch& batch, int64_t k) {
  const float expected = static_cast<float>(k) / 255.0F;
  const std::vector<float> images = batch.images.to_vector<float>();
  const std::vector<int64_t> labels = batch.labels.to_vector<int64_t>();
  return std::all_of(images.begin(), images.end(), [&](float x) { return x == expected; }) &&
         std::all_of(labels.begin(), labels.end(), [&](int64_t x) { return x == k % 10; });
}

/// The first `n_batches` in a walk whose caller computes with each batch and holds it while it asks
/// for the next. Returns how many batches are not what they should be.
int64_t n_wrong(Staging staging, int workers, int64_t n_batches = kBatches) {
  LoaderOptions options = plain(staging, workers);
  options.limit = n_batches * kBatchSize;
  Loader loader(stripes(), options);
  std::vector<Tensor> sums;
  std::vector<Batch> held;
  int64_t wrong = 0;
  for (const Batch& batch : loader) {
    sums.push_back(sum(batch.images));
    held.push_back(batch);
    if (held.size() < 3) continue;
    wrong += is_batch(held.front(), held.front().position) ? 0 : 1;
    held.erase(held.begin());
  }
  for (const Batch& batch : held) wrong += is_batch(batch, batch.position) ? 0 : 1;
  for (size_t k = 0; k < sums.size(); ++k) {
    const double expected = static_cast<double>(kBatchSize * kImageBytes * static_cast<int64_t>(k));
    wrong += sums[k].item() * 255 == Approx(expected).epsilon(1e-4).margin(1e-3) ? 0 : 1;
  }
  return wrong + (n_batches - static_cast<int64_t>(sums.size()));
}

/// Runs `body` under one schedule after another; the one from before afterwards.
template <class Body>
void under_schedules(uint64_t n_seeds, const Body& body) {
  const cudasim::Machine machine = cudasim::machine();
  const auto run = [&](cudasim::Schedule schedule, uint64_t seed) {
    INFO("schedule " << static_cast<int>(schedule) << ", seed " << seed);
    cudasim::set_schedule(schedule, seed);
    body();
  };
  run(cudasim::Schedule::kEager, 1);
  run(cudasim::Schedule::kLatest, 1);
  for (uint64_t seed = 1; seed <= n_seeds; ++seed) run(cudasim::Schedule::kRandom, seed);
  cudasim::set_schedule(machine.schedule, machine.seed);
}

void check_schedules(uint64_t n_seeds, int64_t n_batches) {
  under_schedules(n_seeds, [&] {
    const cudasim::ExpectOrderFindings expected;
    for (const Staging staging : kStagings)
      for (const int workers : {0, 2}) REQUIRE(n_wrong(staging, workers, n_batches) == 0);
    REQUIRE(expected.found().empty());
  });
}

TEST_CASE("DL-5: batches are whole under every schedule, and no wait is missing",
          "[device][sim][staging]") {
  check_schedules(0, kBatches);
}

TEST_CASE("DL-5: the same under 20 random schedules", "[device][sim][staging]") {
  check_schedules(20, 16);  // several times round the slots
}

TEST_CASE("DL-5: the same under 200 random schedules", "[device][sim][staging][slow]") {
  check_schedules(200, 16);
}

/// A walk whose caller lets go of each batch while the kernels that read it may not have run.
int64_t n_wrong_let_go(Staging staging) {
  Loader loader(stripes(), plain(staging, 1));
  std::vector<Tensor> sums, label_sums;
  for (const Batch& batch : loader) {
    sums.push_back(sum(batch.images));
    label_sums.push_back(sum(batch.labels));
  }
  int64_t wrong = kBatches - static_cast<int64_t>(sums.size());
  for (size_t k = 0; k < sums.size(); ++k) {
    const auto number = static_cast<double>(k);
    const double pictures = static_cast<double>(kBatchSize * kImageBytes) * number;
    const double labels = static_cast<double>(kBatchSize) * std::fmod(number, 10.0);
    const bool right = sums[k].item() * 255 == Approx(pictures).epsilon(1e-4).margin(1e-3);
    wrong += right && label_sums[k].item() == labels ? 0 : 1;
  }
  return wrong;
}

TEST_CASE("DL-5: a batch that is let go of lives until it is read", "[device][sim][staging]") {
  under_schedules(5, [] {
    const cudasim::ExpectOrderFindings expected;
    for (const Staging staging : kStagings) REQUIRE(n_wrong_let_go(staging) == 0);
    REQUIRE(expected.found().empty());
  });
}

/// n_wrong with a device for each of a batch's two rows.
int64_t n_wrong_in_lanes(Staging staging, int workers) {
  LoaderOptions options = plain(staging, workers);
  options.lanes = {kFirst, {DeviceType::kCuda, 1}};
  Loader loader(stripes(), options);
  std::vector<Batch> held;
  for (const Batch& batch : loader) held.push_back(batch);
  int64_t wrong = kBatches - static_cast<int64_t>(held.size());
  for (const Batch& batch : held)
    for (const BatchPart& part : batch.parts)
      wrong += part.images.device() == options.lanes[static_cast<size_t>(part.first_row)] &&
                       is_batch({.images = part.images, .labels = part.labels}, batch.position)
                   ? 0
                   : 1;
  return wrong;
}

TEST_CASE("DL-5: lanes of several devices under every schedule", "[device][sim][staging]") {
  under_schedules(5, [] {
    const cudasim::ExpectOrderFindings expected;
    for (const Staging staging : kStagings) REQUIRE(n_wrong_in_lanes(staging, 2) == 0);
    REQUIRE(expected.found().empty());
  });
}

/// Batches 0 and 1 through one slot; without `waiting` it is refilled while it may be copied.
std::vector<cudasim::OrderFinding> refill(bool waiting) {
  const cudasim::ExpectOrderFindings expected;
  const LoaderOptions options = plain(Staging::kUint8, 0);
  const ImageTransform transform(options.transform);
  const std::unique_ptr<detail::StagingRing> ring =
      detail::make_staging_ring(options, transform, 1);
  for (int64_t k = 0; k < 2; ++k) {
    Batch batch = ring->host_batch(0, k * kBatchSize, kBatchSize);
    batch.indices = {k * kBatchSize, k * kBatchSize + 1};
    if (waiting || k == 0) {
      ring->wait(0);
    } else {
      ring->announce_refill(0);
    }
    ring->fill(0, *stripes(), batch);
    ring->send(0, batch);
    static_cast<void>(ring->receive(0));
  }
  synchronize(kFirst);
  return expected.found();
}

TEST_CASE("DL-5: one slot is enough with its wait, and without it that is found",
          "[device][sim][staging]") {
  REQUIRE(refill(true).empty());
  const std::vector<cudasim::OrderFinding> found = refill(false);
  REQUIRE(!found.empty());
  REQUIRE(found[0].fault == cudasim::OrderFault::kMissingWait);
}

TEST_CASE("staging: a loader that goes while a stream of the caller's has its batch to make",
          "[device][sim][staging]") {
  under_schedules(5, [] {
    const cudasim::ExpectOrderFindings expected;
    for (const Staging staging : kStagings) {
      const Stream stream(kFirst);
      const StreamGuard guard(stream);
      Batch kept;
      {
        Loader loader(stripes(), plain(staging, 0));
        kept = *loader.begin();
      }
      REQUIRE(is_batch(kept, 0));
    }
    REQUIRE(expected.found().empty());
  });
}

TEST_CASE("staging: a resident set that does not fit is refused with what is asked and free",
          "[device][sim][staging]") {
  constexpr size_t kSetBytes = kBatches * kBatchSize * (kImageBytes + 8);
  const auto make = [] { Loader loader(stripes(), plain(Staging::kResident, 0)); };
  synchronize(kFirst);
  memory::release_cached(kFirst);
  const auto in_use = static_cast<size_t>(memory::stats(kFirst).held);
  cudasim::set_memory_limit(0, in_use + 2 * kSetBytes - 2);
  REQUIRE_THROWS_WITH(make(), ContainsSubstring("loader: 128 resident pictures are 0.4 MiB, cuda:0 "
                                                "has 0.8 MiB free, of which half is for the "
                                                "network: use fewer pictures, or staging uint8"));
  cudasim::set_memory_limit(0, size_t{40} << 30);
  make();
}

TEST_CASE("staging: a device that failed ends the walk with its error", "[device][sim][staging]") {
  for (const int workers : {0, 2}) {
    Loader loader(stripes(), plain(Staging::kUint8, workers));
    const auto walk = [&] {
      for (const Batch& batch : loader)
        if (batch.position == 3) cudasim::set_sticky_error(0, cudaErrorIllegalAddress);
    };
    REQUIRE_THROWS_WITH(walk(), ContainsSubstring("cuda:0"));
    cudasim::set_sticky_error(0, cudaSuccess);
  }
  REQUIRE(n_wrong(Staging::kUint8, 1) == 0);
}

}  // namespace
}  // namespace heddle
