#pragma once

#include <cstdint>
#include <vector>

#include "heddle/data/loader.h"
#include "heddle/nn/module.h"

namespace heddle::train_cifar {

/// Counts over a set: every sample once.
struct Evaluation {
  double loss = 0.0;             ///< Mean over samples.
  std::vector<int64_t> correct;  ///< For each class.
  std::vector<int64_t> total;
  double seconds = 0.0;
  bool complete = false;  ///< False where a signal ended it early.

  int64_t n_correct() const;
  int64_t n_total() const;
  double accuracy() const;  ///< Share, 0 to 1.
};

/// Runs the model over one epoch of `loader`, in evaluation mode and without gradients; the model's
/// mode is put back.
Evaluation evaluate(Module& model, Loader& loader);

}  // namespace heddle::train_cifar
