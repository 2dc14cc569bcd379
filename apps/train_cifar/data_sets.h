#pragma once

#include <functional>
#include <memory>
#include <string>

#include "heddle/apps/train_cifar/options.h"
#include "heddle/data/dataset.h"
#include "heddle/data/loader.h"

namespace heddle::train_cifar {

/// What a run learns from and is measured on.
struct DataSets {
  std::shared_ptr<const ImageDataset> train;
  std::shared_ptr<const ImageDataset> test;
  std::string kind;  ///< "cifar10" or "generated".

  int64_t train_size(const Options& options) const;  ///< Units: samples, with --limit.
  int64_t test_size(const Options& options) const;
};

/// Opens --data, or makes the generated set. After a --download, `options.data` is the folder that
/// the files are in.
/// Errors: files that are missing, damaged or of another format.
DataSets open_data(Options& options);

/// `feed` may send the batches to other devices than options.devices' first.
Loader train_loader(const DataSets& data, const Options& options,
                    const std::function<void(LoaderOptions&)>& feed = {});
Loader test_loader(const DataSets& data, const Options& options);

}  // namespace heddle::train_cifar
