#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heddle/nn/checkpoint/safetensors.h"
#include "heddle/nn/module.h"
#include "heddle/nn/optim/optimizer.h"

namespace heddle::train_cifar {

/// Writes a run's checkpoint, atomically: one safetensors file with the tensors "model/NAME" and
/// "optimizer/NAME", and `record` (settings, state, data, provider choices) as JSON in its
/// metadata. Errors: a value that is not finite, named; those of save_safetensors. The old file
/// then stands.
void save_checkpoint(const std::filesystem::path& path, const Module& model,
                     const Optimizer& optimizer, const nlohmann::ordered_json& record);

/// A checkpoint that was written by save_checkpoint, opened and checked.
class CheckpointFile {
 public:
  /// Errors: no such file, no safetensors file, or not one of ours.
  explicit CheckpointFile(const std::filesystem::path& path);

  const nlohmann::ordered_json& record() const { return record_; }
  /// Takes over the recorded provider choices. Prints a note where this machine or build differs in
  /// a way that may change last bits.
  void restore_machine() const;
  /// Errors: names, shapes or dtypes that differ, all of them in one message; nothing is changed
  /// then.
  void restore(Module& model) const;
  void restore(Module& model, Optimizer& optimizer) const;

 private:
  std::filesystem::path path_;
  SafetensorsFile file_;
  nlohmann::ordered_json record_;
};

/// The weights in a safetensors file: a model's alone, as PyTorch writes them too, or a
/// checkpoint's. Errors: as CheckpointFile.
void load_weights(Module& model, const std::filesystem::path& path);

}  // namespace heddle::train_cifar
