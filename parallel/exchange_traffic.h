#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle {

/// What exchanges have carried, added up from the plans that were executed.
struct ExchangeTraffic {
  ExchangeTraffic() = default;
  explicit ExchangeTraffic(int replicas)
      : bytes(static_cast<size_t>(replicas), std::vector<int64_t>(static_cast<size_t>(replicas))) {}

  int64_t calls = 0;
  int64_t elements = 0;                     ///< Of each replica's tensors, over all calls.
  std::vector<std::vector<int64_t>> bytes;  ///< (from, to)

  ExchangeTraffic& operator+=(const ExchangeTraffic& other) {
    calls += other.calls;
    elements += other.elements;
    for (size_t from = 0; from < bytes.size(); ++from)
      for (size_t to = 0; to < bytes.size(); ++to) bytes[from][to] += other.bytes[from][to];
    return *this;
  }
};

}  // namespace heddle
