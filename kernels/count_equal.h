#pragma once

#include <cstdint>

#include "heddle/core/stream.h"

namespace heddle {

/// *count = how many i have a[i] = b[i]: correct predictions, where one side is argmax's.
struct CountEqualArgs {
  int64_t* count;
  const int64_t* a;  // (n)
  const int64_t* b;  // (n)
  int64_t n;
};

namespace cpu {
void count_equal(const CountEqualArgs& args);
}  // namespace cpu

namespace cuda {
/// The host waits: not for a step that is captured into a graph.
void count_equal(const CountEqualArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
