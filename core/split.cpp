#include "heddle/core/split.h"

#include "heddle/core/error.h"

namespace heddle {

std::vector<Range> split_evenly(int64_t n, int64_t parts) {
  HEDDLE_CHECK(n >= 0 && parts >= 1, "split_evenly: {} in {} parts, expected n >= 0, parts >= 1", n,
               parts);
  std::vector<Range> result;
  int64_t begin = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t size = n / parts + (part < n % parts ? 1 : 0);
    result.push_back({begin, size});
    begin += size;
  }
  return result;
}

}  // namespace heddle
