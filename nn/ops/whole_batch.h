#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/tensor.h"

namespace heddle {

/// How a part of a batch learns of the other parts, which other threads compute at the same time.
/// While a Scope lives, batch_norm in training on this thread normalises by the statistics of the
/// whole batch, and its backward takes its sums over all of it.
class WholeBatch {
 public:
  virtual ~WholeBatch() = default;

  struct Parts {
    Tensor values;              // (parts, 2, channels), on this part's device
    std::vector<int64_t> rows;  // of each part
  };
  /// What every part gives: `first` and `second` (channels), contiguous and of one dtype, of so
  /// many rows. All parts call it alike, and it waits for them.
  virtual Parts collect(const Tensor& first, const Tensor& second, int64_t rows) = 0;
  /// Whether this part is the one of its model that moves the model's buffers.
  virtual bool leads() const = 0;

  static WholeBatch* current();  ///< This thread's; null where its batches are whole.

  class [[nodiscard]] Scope {
   public:
    explicit Scope(WholeBatch& whole);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WholeBatch* previous_;
  };
};

}  // namespace heddle
