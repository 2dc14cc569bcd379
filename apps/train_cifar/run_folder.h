#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace heddle::train_cifar {

enum class FolderUse { kNew, kOverwrite, kResume };

/// The folder of a run: metrics.jsonl (a line for each step and epoch), config.json (all that is
/// needed to run it again), model.safetensors and checkpoint.safetensors. It belongs to one process
/// at a time.
class RunFolder {
 public:
  /// Finds what would go wrong, without writing: the folder holds a run although a new one is to
  /// begin, is no folder, or cannot be written. Errors: Error naming `path`.
  static void check(const std::filesystem::path& path, FolderUse use);

  /// Makes the folder and takes it for this process, until the object ends.
  /// Errors: those of `check`; another process has it.
  RunFolder(const std::filesystem::path& path, FolderUse use);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoint() const { return path_ / "checkpoint.safetensors"; }
  std::filesystem::path model() const { return path_ / "model.safetensors"; }
  std::filesystem::path config() const { return path_ / "config.json"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }

  /// Adds one line. Errors: the disk is full.
  void append_metrics(const nlohmann::ordered_json& line);
  /// Drops the lines of what a continued run does again: steps after `step`, epochs after `epoch`,
  /// and a last line that a kill cut short.
  void trim_metrics(int64_t step, int64_t epoch);

 private:
  void lock();
  void open_metrics();

  std::filesystem::path path_;
  int lock_ = -1;
  int metrics_file_ = -1;
};

}  // namespace heddle::train_cifar
