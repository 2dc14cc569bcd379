// Batches of pictures through pinned slots: the same bits as on the CPU.
#include <vector>

#include "heddle/core/tensor.h"
#include "heddle/data/loader.h"
#include "heddle/data/synthetic.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/device.h"

namespace heddle {
namespace {

const Device kFirst{DeviceType::kCuda, 0};
constexpr Staging kStagings[] = {Staging::kUint8, Staging::kFloat, Staging::kResident};

LoaderOptions augmenting(Device device, Staging staging, int workers, int prefetch) {
  return {.batch_size = 5,
          .shuffle = true,
          .workers = workers,
          .device = device,
          .seed = 3,
          .transform = {.crop_padding = 4, .flip = true, .cutout = 8},
          .prefetch = prefetch,
          .staging = staging};
}

struct Contents {
  std::vector<float> images;
  std::vector<int64_t> labels, indices;
  bool operator==(const Contents&) const = default;
};

void append(Contents& all, const Contents& part) {
  all.images.insert(all.images.end(), part.images.begin(), part.images.end());
  all.labels.insert(all.labels.end(), part.labels.begin(), part.labels.end());
}

Contents contents(const Batch& batch) {
  if (!batch.parts.empty()) {
    Contents all{{}, {}, batch.indices};
    for (const BatchPart& part : batch.parts)
      if (part.size() > 0)
        append(all, contents(Batch{.images = part.images, .labels = part.labels}));
    return all;
  }
  Contents result{{}, batch.labels.to_vector<int64_t>(), batch.indices};
  if (batch.images.dtype() == DType::kFloat32) {
    result.images = batch.images.to_vector<float>();
  } else {
    for (const BFloat16 x : batch.images.to_vector<BFloat16>())
      result.images.push_back(static_cast<float>(x));
  }
  return result;
}

/// Two epochs; with `keep`, read when all batches have been handed out.
std::vector<Contents> epochs(Loader& loader, bool keep = false) {
  std::vector<Contents> all;
  std::vector<Batch> kept;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const Batch& batch : loader) {
      if (keep) {
        kept.push_back(batch);
      } else {
        all.push_back(contents(batch));
      }
    }
  }
  for (const Batch& batch : kept) all.push_back(contents(batch));
  return all;
}

const Synthetic& pictures() {
  static const Synthetic data(Split::kTrain, {.size = 23});
  return data;
}

class FailingPictures : public ImageDataset {
 public:
  int64_t size() const override { return 23; }
  ImageRecord record(int64_t index) const override {
    if (index == 17) throw std::runtime_error("bad item 17");
    return pictures().record(index);
  }
};

class Numbers : public Dataset {
 public:
  int64_t size() const override { return 7; }
  Sample get(int64_t) const override { return {Tensor::from<float>({0.0F}, {1}), 0}; }
};

TEST_CASE("staging: the CPU's bits, for any staging, workers and slots (DL-4)", "[device]") {
  Loader on_cpu(pictures(), augmenting(Device::cpu(), Staging::kUint8, 0, 0));
  const std::vector<Contents> expected = epochs(on_cpu);
  for (const Staging staging : kStagings) {
    for (const int workers : {0, 1, 3}) {
      for (const int prefetch : {0, 1, 2, 5}) {
        INFO("staging " << static_cast<int>(staging) << ", " << workers << " workers, prefetch "
                        << prefetch);
        Loader loader(pictures(), augmenting(kFirst, staging, workers, prefetch));
        REQUIRE(epochs(loader, /*keep=*/true) == expected);
      }
    }
  }
}

TEST_CASE("staging: bfloat16 pictures", "[device]") {
  LoaderOptions options = augmenting(Device::cpu(), Staging::kUint8, 0, 0);
  options.dtype = DType::kBFloat16;
  Loader on_cpu(pictures(), options);
  const std::vector<Contents> expected = epochs(on_cpu);
  options.device = kFirst;
  for (const Staging staging : kStagings) {
    options.staging = staging;
    Loader loader(pictures(), options);
    for (const Batch& batch : loader) REQUIRE(batch.images.dtype() == DType::kBFloat16);
    loader.set_position({0, 0});
    REQUIRE(epochs(loader) == expected);
  }
}

TEST_CASE("staging: each lane's device gets its own rows (DL-4)", "[device]") {
  Loader on_cpu(pictures(), augmenting(Device::cpu(), Staging::kUint8, 0, 0));
  const std::vector<Contents> expected = epochs(on_cpu);
  std::vector<Device> cards;
  for (const Device device : Device::all())
    if (device.type == DeviceType::kCuda) cards.push_back(device);
  for (const Staging staging : kStagings) {
    for (const int workers : {0, 2}) {
      for (const bool uneven : {false, true}) {
        LoaderOptions options = augmenting(Device::cpu(), staging, workers, 0);
        options.lanes = cards;
        if (uneven)
          options.split = [&](int64_t n) {
            std::vector<int64_t> rows(cards.size(), 0);
            rows.back() = n;
            if (cards.size() > 1 && n > 1)
              rows = {1}, rows.resize(cards.size()), rows.back() = n - 1;
            return rows;
          };
        Loader loader(pictures(), options);
        REQUIRE(epochs(loader, /*keep=*/true) == expected);
      }
    }
  }
}

TEST_CASE("staging: a worker's exception comes with its batch, and the loader goes on (DL-1)",
          "[device]") {
  for (const Staging staging : {Staging::kUint8, Staging::kFloat}) {
    for (const int workers : {0, 2}) {
      Loader loader(FailingPictures(),
                    {.batch_size = 5, .workers = workers, .device = kFirst, .staging = staging});
      for (int attempt = 0; attempt < 2; ++attempt) {
        int64_t n_batches = 0;
        const auto walk = [&] {
          for (const Batch& batch : loader) n_batches += batch.size() > 0 ? 1 : 0;
        };
        REQUIRE_THROWS_WITH(walk(), ContainsSubstring("bad item 17"));
        REQUIRE(n_batches == 3);
      }
    }
  }
}

TEST_CASE("staging: leaving early, two walks at once, and continuing from a position", "[device]") {
  Loader on_cpu(pictures(), augmenting(Device::cpu(), Staging::kUint8, 0, 0));
  const std::vector<Contents> expected = epochs(on_cpu);
  for (const Staging staging : kStagings) {
    Loader loader(pictures(), augmenting(kFirst, staging, 2, 0));
    for (const Batch& batch : loader)
      if (batch.position == 1) break;
    loader.set_position({0, 0});
    LoaderIterator first = loader.begin();
    LoaderIterator second = loader.begin();
    for (size_t k = 0; k < 5; ++k, ++first, ++second) {
      REQUIRE(contents(*first) == expected[k]);
      REQUIRE(contents(*second) == expected[5 + k]);
    }
    loader.set_position({1, 3});
    REQUIRE(contents(*loader.begin()) == expected[8]);
  }
}

TEST_CASE("staging: a batch outlives its loader", "[device]") {
  Loader on_cpu(pictures(), augmenting(Device::cpu(), Staging::kUint8, 0, 0));
  for (const Staging staging : {Staging::kFloat, Staging::kResident}) {
    Batch kept;
    {
      Loader loader(pictures(), augmenting(kFirst, staging, 1, 0));
      kept = *loader.begin();
    }
    on_cpu.set_position({0, 0});
    REQUIRE(contents(kept) == contents(*on_cpu.begin()));
  }
}

TEST_CASE("staging: a resident set in order, limited, without its last batch, on lanes",
          "[device]") {
  for (const bool shuffle : {false, true}) {
    for (const int64_t limit : {0, 12, 100}) {
      for (const bool drop_last : {false, true}) {
        LoaderOptions options = augmenting(Device::cpu(), Staging::kUint8, 0, 0);
        options.shuffle = shuffle;
        options.limit = limit;
        options.drop_last = drop_last;
        Loader on_cpu(pictures(), options);
        const std::vector<Contents> expected = epochs(on_cpu);
        options.device = kFirst;
        options.staging = Staging::kResident;
        Loader loader(pictures(), options);
        REQUIRE(epochs(loader) == expected);
        REQUIRE(loader.in_use().workers == 0);
        options.device = Device::cpu();
        options.lanes = {kFirst, kFirst};
        Loader twice(pictures(), options);
        REQUIRE(epochs(twice) == expected);
      }
    }
  }
}

TEST_CASE("staging: a resident set of several chunks", "[device]") {
  const Synthetic many(Split::kTrain, {.size = 2500});
  LoaderOptions options{.batch_size = 300, .shuffle = true, .seed = 5, .transform = {.flip = true}};
  Loader on_cpu(many, options);
  options.device = kFirst;
  options.staging = Staging::kResident;
  Loader loader(many, options);
  const testing::ChecksOff fast;
  LoaderIterator expected = on_cpu.begin();
  for (const Batch& batch : loader) {
    REQUIRE(contents(batch) == contents(*expected));
    ++expected;
  }
}

TEST_CASE("staging: what cannot be resident is said when the loader is made", "[device]") {
  const auto make = [](auto data, Device device) {
    const Loader loader(data, {.device = device, .staging = Staging::kResident});
  };
  REQUIRE_THROWS_WITH(make(pictures(), Device::cpu()),
                      ContainsSubstring("resident pictures need a CUDA device, cpu is none"));
  REQUIRE_THROWS_WITH(make(Numbers(), kFirst),
                      ContainsSubstring("resident staging is for datasets of pictures"));
  REQUIRE_THROWS_WITH(make(FailingPictures(), kFirst), ContainsSubstring("bad item 17"));
}

}  // namespace
}  // namespace heddle
