#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "heddle/parallel/exchange.h"

namespace heddle {

constexpr ExchangeKind kExchangeKinds[] = {ExchangeKind::kDirect, ExchangeKind::kRing,
                                           ExchangeKind::kGather};

/// What replica `replica` holds before: the same in every run, of both signs and several sizes.
inline std::vector<float> gradient_of(int replica, int64_t elements, int round = 0) {
  std::vector<float> values(static_cast<size_t>(elements));
  uint32_t state = 12345U + 977U * static_cast<uint32_t>(replica) +
                   31U * static_cast<uint32_t>(round) + static_cast<uint32_t>(elements);
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = (static_cast<float>(state >> 8) / 16777216.0F - 0.5F) *
            std::ldexp(1.0F, static_cast<int>(state % 7U));
  }
  return values;
}

/// The sum of replicas first to last - 1 at one place, as the tree that the docs promise: the
/// largest power of two below their number, then the others.
inline float tree_sum_of(const std::vector<std::vector<float>>& values, size_t i, size_t first,
                         size_t last) {
  if (last - first == 1) return values[first][i];
  size_t half = 1;
  while (half * 2 < last - first) half *= 2;
  return tree_sum_of(values, i, first, first + half) + tree_sum_of(values, i, first + half, last);
}

struct ExpectedSum {
  std::vector<float> tree;
  std::vector<double> exact;
  std::vector<double> magnitude;  // sum of absolute values: what errors are measured by
};

inline ExpectedSum expected_sum(int replicas, int64_t elements, int round = 0) {
  std::vector<std::vector<float>> values;
  for (int r = 0; r < replicas; ++r) values.push_back(gradient_of(r, elements, round));
  ExpectedSum expected;
  for (size_t i = 0; i < static_cast<size_t>(elements); ++i) {
    double exact = 0, magnitude = 0;
    for (const std::vector<float>& replica : values) {
      exact += static_cast<double>(replica[i]);
      magnitude += std::abs(static_cast<double>(replica[i]));
    }
    expected.tree.push_back(tree_sum_of(values, i, 0, values.size()));
    expected.exact.push_back(exact);
    expected.magnitude.push_back(magnitude);
  }
  return expected;
}

/// What is wrong with the replicas' results; empty where nothing is.
inline std::string fault_of(ExchangeKind kind, const std::vector<std::vector<float>>& results,
                            const ExpectedSum& expected) {
  for (size_t replica = 0; replica < results.size(); ++replica)
    if (results[replica] != results[0])
      return "replica " + std::to_string(replica) + " differs from replica 0";
  if (keeps_tree_order(kind) && results[0] != expected.tree) return "not the sum in tree order";
  for (size_t i = 0; i < expected.exact.size(); ++i) {
    const double error = std::abs(static_cast<double>(results[0][i]) - expected.exact[i]);
    if (!(error <= 1e-6 * expected.magnitude[i]))
      return "element " + std::to_string(i) + " is off by " + std::to_string(error);
  }
  return {};
}

}  // namespace heddle
