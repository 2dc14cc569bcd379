// How a loader chooses its workers and depth, from waits that the tests make up; and that what it
// chooses changes no batch.
#include "heddle/data/loader_tuning.h"

#include <algorithm>
#include <vector>

#include "heddle/core/rng.h"
#include "heddle/data/loader.h"
#include "heddle/data/synthetic.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using detail::LoaderLimits;
using detail::LoaderTuner;

/// A caller that computes for `step` seconds and workers that need `make` for a batch: what a
/// loader of this size would measure in a second. More workers than `useful` bring nothing.
struct Scene {
  double step, make;
  int useful = 1000;

  LoaderWaits waits(LoaderSize size) const {
    const double made = std::min(size.workers, useful) / make;  // batches a second
    const double rate = step > 0 ? std::min(1.0 / step, made) : made;
    return {.batches = static_cast<int>(1000 * rate),
            .elapsed = 1000,
            .waited = 1000 * (1 - rate * step),
            .worked = 1000 * (size.workers > useful ? size.workers : rate * make)};
  }
};

LoaderLimits up_to(int workers) { return {{1, 2}, {workers, 2 * workers + 2}}; }

/// The sizes of `n` windows.
std::vector<LoaderSize> sizes(LoaderTuner& tuner, const Scene& scene, int n) {
  std::vector<LoaderSize> all;
  for (int i = 0; i < n; ++i) all.push_back(tuner.next(scene.waits(tuner.size())));
  return all;
}

TEST_CASE("loader tuning: as many workers as keep the caller from waiting, and no more") {
  LoaderTuner tuner({}, up_to(16));
  REQUIRE(tuner.size() == LoaderSize{1, 2});
  const std::vector<LoaderSize> grown = sizes(tuner, {.step = 0.010, .make = 0.025}, 20);
  REQUIRE(grown[0] == LoaderSize{2, 3});
  REQUIRE(grown[1] == LoaderSize{3, 4});
  for (size_t i = 2; i < grown.size(); ++i) REQUIRE(grown[i] == LoaderSize{3, 4});
}

TEST_CASE("loader tuning: never beyond the processors") {
  LoaderTuner tuner({}, up_to(5));
  const std::vector<LoaderSize> grown = sizes(tuner, {.step = 0, .make = 1}, 40);
  for (const LoaderSize size : grown) REQUIRE(size.workers <= 5);
  REQUIRE(grown.back() == LoaderSize{5, 6});
}

TEST_CASE("loader tuning: workers that idle are sent to sleep") {
  LoaderTuner tuner({12, 13}, up_to(16));
  REQUIRE(sizes(tuner, {.step = 0.010, .make = 0.001}, 20).back() == LoaderSize{1, 2});
  // One that is busy four fifths of the time would not do alone with a little less luck.
  LoaderTuner busy({2, 3}, up_to(16));
  REQUIRE(sizes(busy, {.step = 0.010, .make = 0.008}, 20).back() == LoaderSize{2, 3});
}

TEST_CASE("loader tuning: workers that bring nothing are taken back, and tried ever less often") {
  LoaderTuner tuner({}, up_to(16));
  const Scene slow_disk{.step = 0.010, .make = 0.050, .useful = 2};
  const std::vector<LoaderSize> grown = sizes(tuner, slow_disk, 1000);
  int trials = 0;
  for (const LoaderSize size : grown) {
    REQUIRE(size.workers <= 3);
    trials += size.workers == 3 ? 1 : 0;
  }
  REQUIRE(trials >= 2);
  REQUIRE(trials <= 12);
  REQUIRE(grown.back().workers == 2);
}

TEST_CASE("loader tuning: where workers are idle and the caller waits, more is made ahead") {
  LoaderTuner tuner({2, 3}, up_to(4));
  LoaderWaits uneven{.batches = 100, .elapsed = 1, .waited = 0.3, .worked = 1.0};
  REQUIRE(tuner.next(uneven) == LoaderSize{2, 4});
  uneven.batches = 120;
  REQUIRE(tuner.next(uneven) == LoaderSize{2, 5});
  uneven.batches = 121;  // not worth it
  REQUIRE(tuner.next(uneven) == LoaderSize{2, 4});
  REQUIRE(tuner.next(uneven) == LoaderSize{2, 4});
}

TEST_CASE("loader tuning: what is set stays") {
  LoaderTuner fixed({3, 4}, {{3, 4}, {3, 4}});
  REQUIRE(sizes(fixed, {.step = 0, .make = 1}, 5).back() == LoaderSize{3, 4});
  LoaderTuner ahead({1, 3}, {{1, 3}, {8, 3}});
  REQUIRE(sizes(ahead, {.step = 0, .make = 1}, 20).back() == LoaderSize{8, 3});
  REQUIRE(ahead.next({}) == LoaderSize{8, 3});  // nothing was measured
}

TEST_CASE("loader: starts small and says what it uses") {
  const Synthetic pictures(Split::kTrain, {.size = 20});
  REQUIRE(Loader(pictures, {.workers = kAutoWorkers}).in_use() == LoaderSize{1, 2});
  REQUIRE(Loader(pictures, {.workers = kAutoWorkers, .prefetch = 5}).in_use() == LoaderSize{1, 5});
  REQUIRE(Loader(pictures, {.workers = 3}).in_use() == LoaderSize{3, 4});
  REQUIRE(Loader(pictures, {.workers = 3, .prefetch = 2}).in_use() == LoaderSize{3, 2});
  REQUIRE(Loader(pictures, {}).in_use() == LoaderSize{0, 1});
}

/// What a walk came to.
struct Walk {
  std::vector<float> images;
  std::vector<int64_t> labels, indices;
  bool operator==(const Walk&) const = default;
};

Walk walk(Loader& loader, int n_epochs) {
  Walk result;
  for (int epoch = 0; epoch < n_epochs; ++epoch) {
    int64_t position = 0;
    for (const Batch& batch : loader) {
      REQUIRE(batch.position == position++);
      for (const float x : batch.images.to_vector<float>()) result.images.push_back(x);
      for (const int64_t label : batch.labels.to_vector<int64_t>()) result.labels.push_back(label);
      result.indices.insert(result.indices.end(), batch.indices.begin(), batch.indices.end());
    }
  }
  return result;
}

TEST_CASE("loader: batches are the same however workers and depth change under way (DL-4)") {
  const Synthetic pictures(Split::kTrain, {.size = 203});
  LoaderOptions options{.batch_size = 2,
                        .shuffle = true,
                        .workers = 0,
                        .seed = 5,
                        .transform = {.crop_padding = 4, .flip = true}};
  Loader plain(pictures, options);
  const Walk expected = walk(plain, 3);
  for (const uint64_t seed : {1, 2, 3}) {
    Rng rng(seed, RngPurpose::kShuffle, 0);
    std::vector<LoaderSize> used;
    options.workers = kAutoWorkers;
    options.tune = [&](LoaderSize now, const LoaderWaits& waits) {
      REQUIRE(waits.batches >= 1);
      used.push_back(now);
      return LoaderSize{static_cast<int>(9 * rng.next_uniform()),
                        static_cast<int>(12 * rng.next_uniform())};
    };
    Loader loader(pictures, options);
    REQUIRE(walk(loader, 3) == expected);
    REQUIRE(used.size() >= 300);
    for (const LoaderSize size : used) {
      REQUIRE(size.workers >= 1);
      REQUIRE(size.prefetch >= 2);
    }
    REQUIRE(std::any_of(used.begin(), used.end(),
                        [&](LoaderSize size) { return size != used.front(); }));
  }
}

}  // namespace
}  // namespace heddle
