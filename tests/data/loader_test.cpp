#include "heddle/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "heddle/core/tape.h"
#include "heddle/data/synthetic.h"
#include "heddle/tests/support/catch.h"

using heddle::Batch;
using heddle::Dataset;
using heddle::Device;
using heddle::DType;
using heddle::Loader;
using heddle::LoaderOptions;
using heddle::LoaderPosition;
using heddle::Rng;
using heddle::Sample;
using heddle::Tensor;

namespace {

/// Sample i has value i, label i mod 10, and, through draw, one random number beside it.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t n, bool slow = false) : n_(n), slow_(slow) {}
  int64_t size() const override { return n_; }
  Sample get(int64_t index) const override {
    return {Tensor::from<float>({static_cast<float>(index), 0.0F}, {2}), index % 10};
  }
  Sample draw(int64_t index, Rng& rng) const override {
    // The later samples of a batch of four are ready first.
    if (slow_) std::this_thread::sleep_for(std::chrono::microseconds(300 * (3 - index % 4)));
    return {Tensor::from<float>({static_cast<float>(index), rng.next_uniform()}, {2}), index % 10};
  }

 private:
  int64_t n_;
  bool slow_;
};

class Failing : public Numbers {
 public:
  Failing() : Numbers(64) {}
  Sample get(int64_t index) const override {
    if (index == 37) throw std::runtime_error("bad item 37");
    return Numbers::get(index);
  }
  Sample draw(int64_t index, Rng&) const override { return get(index); }
};

std::vector<std::vector<float>> contents(Loader& loader) {
  std::vector<std::vector<float>> all;
  for (const Batch& batch : loader) all.push_back(batch.images.to_vector<float>());
  return all;
}

}  // namespace

TEST_CASE("loader: the last batch is smaller and right (DL-3)") {
  for (const int workers : {0, 1, 3}) {
    Loader loader(Numbers(10), {.batch_size = 4, .workers = workers});
    REQUIRE(loader.size() == 3);
    REQUIRE(loader.n_samples() == 10);
    std::vector<int64_t> sizes;
    double loss = 0;  // "loss" of a batch: its number among 1, 1, 4
    std::vector<int64_t> labels;
    for (const Batch& batch : loader) {
      sizes.push_back(batch.images.size(0));
      REQUIRE(batch.labels.numel() == batch.size());
      loss += (batch.position == 2 ? 4.0 : 1.0) * static_cast<double>(batch.size());
      for (const int64_t label : batch.labels.to_vector<int64_t>()) labels.push_back(label);
      if (batch.position == 2) {
        REQUIRE(batch.images.at({0, 0}) == 8);
        REQUIRE(batch.images.at({1, 0}) == 9);
      }
    }
    REQUIRE(sizes == std::vector<int64_t>{4, 4, 2});
    REQUIRE(labels == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    REQUIRE(loss / 10 == Approx(1.6));
  }
}

TEST_CASE("loader: a batch larger than the dataset, and batches of one") {
  Loader larger(Numbers(6), {.batch_size = 8, .workers = 1});
  REQUIRE(larger.size() == 1);
  for (const Batch& batch : larger) REQUIRE(batch.size() == 6);
  Loader ones(Numbers(3), {.batch_size = 1, .workers = 2});
  int64_t n = 0;
  for (const Batch& batch : ones) REQUIRE(batch.images.at({0, 0}) == static_cast<double>(n++));
  REQUIRE(n == 3);
}

TEST_CASE("loader: drop_last leaves out the partial batch") {
  Loader loader(Numbers(10), {.batch_size = 4, .drop_last = true});
  REQUIRE(loader.size() == 2);
  REQUIRE(loader.n_samples() == 8);
  for (const Batch& batch : loader) REQUIRE(batch.size() == 4);
}

TEST_CASE("loader: impossible options are errors") {
  const auto make = [](int64_t n, const LoaderOptions& options) { Loader(Numbers(n), options); };
  REQUIRE_THROWS_WITH(make(0, {}), ContainsSubstring("dataset is empty"));
  REQUIRE_THROWS_WITH(make(4, {.batch_size = 0}), ContainsSubstring("batch size is 0"));
  REQUIRE_THROWS_WITH(make(4, {.workers = -2}), ContainsSubstring("-2 workers"));
  REQUIRE_THROWS_WITH(make(4, {.prefetch = -1}), ContainsSubstring("prefetch is -1"));
  REQUIRE_THROWS_WITH(make(4, {.limit = -1}), ContainsSubstring("limit is -1"));
  REQUIRE_THROWS_WITH(make(6, {.batch_size = 8, .drop_last = true}),
                      ContainsSubstring("6 samples and batch size 8 leaves nothing"));
  REQUIRE_THROWS_WITH(make(4, {.dtype = DType::kInt64}), ContainsSubstring("dtype is int64"));
  REQUIRE_THROWS_WITH(make(4, {.device = {heddle::DeviceType::kCuda, 77}}),
                      ContainsSubstring("device is cuda:77"));
  REQUIRE_THROWS_WITH(make(4, {.lanes = {Device::cpu(), {heddle::DeviceType::kCuda, 77}}}),
                      ContainsSubstring("device is cuda:77"));
  const auto split = [](std::vector<int64_t> rows) { return [=](int64_t) { return rows; }; };
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{2, 1}, {2, 1, 1}, {5, -1}, {4}})
    REQUIRE_THROWS_WITH(
        make(4, {.batch_size = 4, .lanes = {Device::cpu(), Device::cpu()}, .split = split(rows)}),
        ContainsSubstring("the split of 4 rows is ("));
  REQUIRE_THROWS_WITH(Loader(std::shared_ptr<const Dataset>(), {}),
                      ContainsSubstring("no dataset"));
}

TEST_CASE("loader: order and draws are the same for any number of workers (DL-4)") {
  std::vector<std::vector<std::vector<float>>> expected;
  for (const int workers : {0, 1, 3, 8}) {
    Loader loader(Numbers(40, true),
                  {.batch_size = 4, .shuffle = true, .workers = workers, .seed = 7});
    std::vector<std::vector<std::vector<float>>> epochs;
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::set<int64_t> seen;
      epochs.emplace_back();
      for (const Batch& batch : loader) {
        REQUIRE(batch.epoch == epoch);
        seen.insert(batch.indices.begin(), batch.indices.end());
        epochs.back().push_back(batch.images.to_vector<float>());
      }
      REQUIRE(seen.size() == 40);
      REQUIRE(*seen.rbegin() == 39);
    }
    REQUIRE(epochs[0] != epochs[1]);
    if (expected.empty()) expected = epochs;
    REQUIRE(epochs == expected);
  }
  Loader other(Numbers(40), {.batch_size = 4, .shuffle = true, .seed = 8});
  REQUIRE(contents(other) != expected[0]);
}

TEST_CASE("loader: draws depend on the epoch and the sample alone") {
  Loader ordered(Numbers(8), {.batch_size = 8, .seed = 7});
  Loader mixed(Numbers(8), {.batch_size = 3, .shuffle = true, .workers = 2, .seed = 7});
  std::vector<double> draws(8);
  for (const Batch& batch : ordered)
    for (int64_t i = 0; i < 8; ++i) draws[static_cast<size_t>(i)] = batch.images.at({i, 1});
  for (const Batch& batch : mixed)
    for (int64_t i = 0; i < batch.size(); ++i)
      REQUIRE(batch.images.at({i, 1}) ==
              draws[static_cast<size_t>(batch.indices[static_cast<size_t>(i)])]);
  std::sort(draws.begin(), draws.end());
  REQUIRE(std::unique(draws.begin(), draws.end()) == draws.end());
}

TEST_CASE("loader: a sample's draws change with the epoch and the seed") {
  Loader ordered(Numbers(8), {.batch_size = 8, .seed = 7});
  Loader other(Numbers(8), {.batch_size = 8, .seed = 8});
  const auto first = contents(ordered);
  const auto second = contents(ordered);
  const auto other_seed = contents(other);
  for (size_t i = 0; i < 8; ++i) {
    REQUIRE(first[0][2 * i + 1] != other_seed[0][2 * i + 1]);
    REQUIRE(first[0][2 * i] == second[0][2 * i]);
    REQUIRE(first[0][2 * i + 1] != second[0][2 * i + 1]);
  }
}

TEST_CASE("loader: a worker's exception reaches the caller, after the batches before it (DL-1)") {
  for (const int workers : {0, 1, 4, 8}) {
    for (const bool late : {false, true}) {
      int arrived = 0;
      const auto run = [&] {
        Loader loader(Failing(), {.batch_size = 8, .workers = workers});
        for (const Batch& batch : loader) {
          arrived += static_cast<int>(batch.position >= 0);
          // By now the failing batch may be over: its error must not be lost.
          if (late && arrived == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
      };
      REQUIRE_THROWS_WITH(run(), ContainsSubstring("bad item 37"));
      REQUIRE(arrived == 4);
    }
    Loader again(Numbers(64), {.batch_size = 8, .workers = workers});
    REQUIRE(contents(again).size() == 8);
  }
}

TEST_CASE("loader: an iterator that has failed or ended stays at the end") {
  Loader loader(Numbers(2), {.batch_size = 2, .workers = 1});
  auto batch = loader.begin();
  ++batch;
  REQUIRE(batch == loader.end());
  REQUIRE_THROWS_WITH(++batch, ContainsSubstring("epoch has ended"));
}

TEST_CASE("loader: batches that are kept are not overwritten (DL-5)") {
  class Bytes : public Dataset {
   public:
    int64_t size() const override { return 64 * 4; }
    Sample get(int64_t index) const override {
      const int64_t k = index / 4;
      return {Tensor::from<uint8_t>(std::vector<uint8_t>(48, static_cast<uint8_t>(k)), {3, 4, 4}),
              k % 10};
    }
  };
  for (const int prefetch : {1, 2}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      Loader loader(Bytes(), {.batch_size = 4, .workers = 2, .prefetch = prefetch});
      std::vector<Batch> kept;
      for (const Batch& batch : loader) kept.push_back(batch);
      REQUIRE(kept.size() == 64);
      for (size_t k = 0; k < kept.size(); ++k) {
        const std::vector<int64_t> values = kept[k].images.to_vector<int64_t>();
        REQUIRE(std::all_of(values.begin(), values.end(),
                            [&](int64_t v) { return v == static_cast<int64_t>(k); }));
        REQUIRE(kept[k].labels.to_vector<int64_t>() ==
                std::vector<int64_t>(4, static_cast<int64_t>(k % 10)));
      }
    }
  }
}

TEST_CASE("loader: continues from any batch with another number of workers") {
  const LoaderOptions options = {.batch_size = 4, .shuffle = true, .workers = 2, .seed = 3};
  Loader whole(Numbers(22), options);
  std::vector<std::vector<std::vector<float>>> epochs = {contents(whole), contents(whole)};
  REQUIRE(whole.position() == LoaderPosition{2, 0});
  for (const int64_t from : {0, 1, 5, 6}) {
    LoaderOptions other = options;
    other.workers = 0;
    Loader resumed(Numbers(22), other);
    resumed.set_position({0, from});
    std::vector<std::vector<float>> rest;
    if (from < 6) rest = contents(resumed);
    REQUIRE(rest == std::vector(epochs[0].begin() + from, epochs[0].end()));
    REQUIRE(resumed.position() == LoaderPosition{1, 0});
    REQUIRE(contents(resumed) == epochs[1]);
  }
  REQUIRE_THROWS_WITH(whole.set_position({0, 7}), ContainsSubstring("batch 7 of epoch 0"));
  REQUIRE_THROWS_WITH(whole.set_position({-1, 0}), ContainsSubstring("epoch -1"));
}

TEST_CASE("loader: the loop may be left early, and passes may overlap") {
  Loader loader(Numbers(400, true), {.batch_size = 4, .workers = 3});
  for (int i = 0; i < 5; ++i) {
    for (const Batch& batch : loader)
      if (batch.position == i) break;
    REQUIRE(loader.position().epoch == i + 1);
  }
  auto first = loader.begin();
  auto second = loader.begin();
  ++first;
  REQUIRE(first->position == 1);
  REQUIRE(second->position == 0);
  REQUIRE(first->epoch + 1 == second->epoch);
}

TEST_CASE("loader: a pass may outlive its loader") {
  auto loader = std::make_unique<Loader>(Numbers(40), LoaderOptions{.batch_size = 4, .workers = 2});
  auto batch = loader->begin();
  loader.reset();
  int n = 0;
  for (; batch != std::default_sentinel; ++batch) ++n;
  REQUIRE(n == 10);
}

TEST_CASE("loader: only the first samples, where limited") {
  Loader loader(Numbers(40), {.batch_size = 4, .shuffle = true, .limit = 10});
  std::set<int64_t> seen;
  for (const Batch& batch : loader) seen.insert(batch.indices.begin(), batch.indices.end());
  REQUIRE(seen == std::set<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  Loader all(Numbers(4), {.batch_size = 4, .limit = 100});
  REQUIRE(all.n_samples() == 4);
}

TEST_CASE("loader: workers have the gradient mode of the caller") {
  class Mode : public Numbers {
   public:
    using Numbers::Numbers;
    Sample draw(int64_t index, Rng&) const override {
      return {get(index).value, heddle::grad_enabled() ? 1 : 0};
    }
  };
  for (const int workers : {0, 2}) {
    Loader loader(Mode(8), {.batch_size = 2, .workers = workers});
    for (const Batch& batch : loader) REQUIRE(batch.labels.at({0}) == 1);
    const heddle::NoGradGuard guard;
    for (const Batch& batch : loader) REQUIRE(batch.labels.at({0}) == 0);
  }
}

TEST_CASE("loader: samples of three dimensions are stacked channels-last") {
  class Pictures : public Dataset {
   public:
    int64_t size() const override { return 2; }
    Sample get(int64_t index) const override {
      std::vector<float> values(24);
      for (size_t i = 0; i < 24; ++i) values[i] = static_cast<float>(100 * index) + float(i);
      return {Tensor::from<float>(values, {2, 3, 4}), index};
    }
  };
  Loader loader(Pictures(), {.batch_size = 2});
  for (const Batch& batch : loader) {
    REQUIRE(batch.images.shape() == heddle::Shape{2, 2, 3, 4});
    REQUIRE(batch.images.is_contiguous(heddle::MemoryFormat::kChannelsLast));
    REQUIRE(batch.images.at({1, 1, 2, 3}) == 123);
    REQUIRE(batch.images.at({0, 1, 0, 2}) == 14);
  }
}

TEST_CASE("loader: samples must agree in shape and dtype") {
  class Ragged : public Dataset {
   public:
    explicit Ragged(DType dtype) : dtype_(dtype) {}
    int64_t size() const override { return 3; }
    Sample get(int64_t index) const override {
      if (index == 2) return {Tensor::empty({dtype_ == DType::kInt64 ? 2 : 3}, dtype_), 0};
      return {Tensor::from<float>({1, 2}, {2}), 0};
    }

   private:
    DType dtype_;
  };
  const auto run = [](DType dtype) {
    Loader loader(Ragged(dtype), {.batch_size = 3, .workers = 1});
    (void)contents(loader);
  };
  REQUIRE_THROWS_WITH(run(DType::kFloat32),
                      ContainsSubstring("sample 2 is float32 of shape (3), expected"));
  REQUIRE_THROWS_WITH(run(DType::kInt64), ContainsSubstring("sample 2 is int64 of shape (2)"));
  class Undefined : public Numbers {
   public:
    Undefined() : Numbers(1) {}
    Sample draw(int64_t, Rng&) const override { return {}; }
  };
  Loader undefined(Undefined(), {});
  REQUIRE_THROWS_WITH(contents(undefined), ContainsSubstring("sample 0 has an undefined value"));
}

TEST_CASE("loader: pictures come transformed, in float32 and bfloat16") {
  const auto set = std::make_shared<const heddle::Synthetic>(
      heddle::Split::kTest, heddle::SyntheticOptions{.seed = 1, .size = 10});
  Loader loader(set, {.batch_size = 4, .workers = 2});
  Loader half(set, {.batch_size = 4, .dtype = DType::kBFloat16});
  auto other = half.begin();
  for (const Batch& batch : loader) {
    REQUIRE(batch.images.is_contiguous(heddle::MemoryFormat::kChannelsLast));
    const int64_t index = batch.indices[0];
    REQUIRE(batch.labels.at({0}) == static_cast<double>(set->record(index).label));
    const float byte = set->record(index).planes[2 * heddle::kImagePixels + 5 * 32 + 7];
    const float expected = (byte / 255.0F - heddle::kCifar10Mean[2]) / heddle::kCifar10Std[2];
    REQUIRE(static_cast<float>(batch.images.at({0, 2, 5, 7})) == expected);
    REQUIRE(other->images.dtype() == DType::kBFloat16);
    REQUIRE(static_cast<float>(other->images.at({0, 2, 5, 7})) ==
            static_cast<float>(heddle::BFloat16(expected)));
    ++other;
  }
}

TEST_CASE("loader: a steady epoch takes no memory from the system") {
  const heddle::Synthetic set(heddle::Split::kTest, {.size = 512});
  for (const int workers : {0, 2}) {
    Loader loader(set, {.batch_size = 16, .workers = workers, .prefetch = 3});
    for (const Batch& batch : loader) REQUIRE(batch.size() == 16);
    const int64_t before = heddle::memory::stats(heddle::Device::cpu()).system_calls;
    for (int epoch = 0; epoch < 3; ++epoch)
      for (const Batch& batch : loader) REQUIRE(batch.size() == 16);
    REQUIRE(heddle::memory::stats(heddle::Device::cpu()).system_calls == before);
  }
}
