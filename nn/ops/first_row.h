#pragma once

#include <cstdint>

namespace heddle {

/// While it lives, tensors that this thread computes on are rows `row` and following of a larger
/// batch: dropout draws what it would draw for them there.
class [[nodiscard]] FirstRow {
 public:
  explicit FirstRow(int64_t row);
  ~FirstRow();
  FirstRow(const FirstRow&) = delete;
  FirstRow& operator=(const FirstRow&) = delete;

 private:
  int64_t previous_;
};

}  // namespace heddle
