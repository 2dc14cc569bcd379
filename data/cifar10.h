#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "heddle/data/dataset.h"

namespace heddle {

inline constexpr int64_t kCifar10Classes = 10;
inline constexpr int64_t kCifar10RecordBytes = 1 + kImageBytes;  ///< label, then R, G, B planes
inline constexpr int64_t kCifar10FileRecords = 10'000;
inline constexpr int64_t kCifar10FileBytes = kCifar10FileRecords * kCifar10RecordBytes;

struct Cifar10Options {
  /// Accept files of 1 to 10,000 whole records, for tests; otherwise each must have exactly 10,000.
  bool allow_small = false;
};

/// The official binary version of CIFAR-10: data_batch_1.bin .. data_batch_5.bin, test_batch.bin
/// and, where there is one, batches.meta.txt. The files are mapped, not copied; the set of files,
/// every size and every label of the split are checked before the constructor returns.
class Cifar10 : public ImageDataset {
 public:
  /// `folder` is the one that holds the six files; for its parent, the message says which to give.
  /// Errors: the folder or files are missing (all named in one message), have another size, or a
  /// label is not 0 to 9 (with file and record, counted from 0).
  Cifar10(const std::filesystem::path& folder, Split split, const Cifar10Options& options = {});

  int64_t size() const override;
  ImageRecord record(int64_t index) const override;
  std::vector<std::string> class_names() const override;
  void check_source() const override;

 private:
  struct Files;
  std::shared_ptr<const Files> files_;
};

/// The number of records in one file's bytes, after checking its size and every label. `name` is
/// what errors call the file. Errors: as for Cifar10.
int64_t check_cifar10(std::span<const uint8_t> bytes, std::string_view name,
                      const Cifar10Options& options);

/// Record `index` of checked bytes.
ImageRecord cifar10_record(std::span<const uint8_t> bytes, int64_t index);

/// The ten names in the text of a batches.meta.txt. Errors: there are not ten.
std::vector<std::string> parse_cifar10_names(std::string_view text, std::string_view name);

}  // namespace heddle
