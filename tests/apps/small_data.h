#pragma once

#include <filesystem>
#include <string>

#include "heddle/tests/support/process.h"

namespace heddle::test {

inline constexpr int64_t kRecordBytes = 3073;

/// One CIFAR-10 record: the label, then 3072 bytes of one value.
inline std::string record(int label, int value) {
  return std::string(1, static_cast<char>(label)) +
         std::string(kRecordBytes - 1, static_cast<char>(value));
}

/// Files of the official names with few records, to be used with --allow-small: `per_file` in each
/// of the five training files and `n_test` in the test file. Classes differ in brightness.
inline void write_small_cifar(const std::filesystem::path& folder, int per_file, int n_test) {
  std::filesystem::create_directories(folder);
  const auto records = [](int first, int n) {
    std::string bytes;
    for (int i = first; i < first + n; ++i) bytes += record(i % 10, 20 * (i % 10) + i % 17);
    return bytes;
  };
  for (int file = 1; file <= 5; ++file)
    write_text(folder / ("data_batch_" + std::to_string(file) + ".bin"),
               records((file - 1) * per_file, per_file));
  write_text(folder / "test_batch.bin", records(3, n_test));
}

}  // namespace heddle::test
