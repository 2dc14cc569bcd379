#include "heddle/apps/train_cifar/data_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "heddle/data/cifar10.h"
#include "heddle/data/download.h"
#include "heddle/data/synthetic.h"

namespace heddle::train_cifar {
namespace {

constexpr int64_t kCropPadding = 4;
constexpr int64_t kCutoutSide = 8;

int64_t limited(int64_t size, const Options& options) {
  return options.limit == 0 ? size : std::min(size, options.limit);
}

TransformOptions transform_of(const std::string& augment) {
  TransformOptions transform;
  transform.flip = augment != "none";
  if (augment.starts_with("crop_flip")) transform.crop_padding = kCropPadding;
  if (augment == "crop_flip_cutout") transform.cutout = kCutoutSide;
  return transform;
}

Staging staging_of(const std::string& name) {
  if (name == "resident") return Staging::kResident;
  return name == "float" ? Staging::kFloat : Staging::kUint8;
}

LoaderOptions loader_options(const Options& options) {
  return {.batch_size = options.batch_size,
          .workers = workers_of(options),
          .device = device_of(options),
          .seed = static_cast<uint64_t>(options.seed),
          .limit = options.limit,
          .staging = staging_of(options.staging)};
}

std::shared_ptr<const ImageDataset> generated(Split split, int64_t full_size,
                                              const Options& options) {
  return std::make_shared<Synthetic>(split, SyntheticOptions{.size = limited(full_size, options)});
}

/// Fetches the archive, with a line for each tenth of it.
std::string download(const Options& options) {
  int64_t shown = 0;
  DownloadOptions how;
  how.progress = [&](int64_t done, int64_t total) {
    const int64_t tenths = total > 0 ? done * 10 / total : 0;
    if (options.quiet || tenths <= shown) return;
    shown = tenths;
    fmt::print("download  {}0% of {} MB\n", tenths, total / 1'000'000);
    std::fflush(stdout);
  };
  return download_cifar10(options.data, how).string();
}

}  // namespace

int64_t DataSets::train_size(const Options& options) const {
  return limited(train->size(), options);
}

int64_t DataSets::test_size(const Options& options) const { return limited(test->size(), options); }

DataSets open_data(Options& options) {
  if (options.download) options.data = download(options);
  if (options.data.empty())
    return {generated(Split::kTrain, 5 * kCifar10FileRecords, options),
            generated(Split::kTest, kCifar10FileRecords, options), "generated"};
  const Cifar10Options files{.allow_small = options.allow_small};
  return {std::make_shared<Cifar10>(options.data, Split::kTrain, files),
          std::make_shared<Cifar10>(options.data, Split::kTest, files), "cifar10"};
}

Loader train_loader(const DataSets& data, const Options& options,
                    const std::function<void(LoaderOptions&)>& feed) {
  LoaderOptions loader = loader_options(options);
  loader.shuffle = true;
  loader.transform = transform_of(options.augment);
  if (feed) feed(loader);
  return {data.train, loader};
}

Loader test_loader(const DataSets& data, const Options& options) {
  return {data.test, loader_options(options)};
}

}  // namespace heddle::train_cifar
