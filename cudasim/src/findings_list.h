#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "cudasim/findings.h"

namespace cudasim {

/// What makes two findings equal: kind, kernel, and the code of both accesses.
using FindingKey = std::tuple<FindingKind, const void*, uintptr_t, uintptr_t>;

class FindingsList {
 public:
  static FindingsList& get();

  /// False where an equal one is there, which counts one more, or the launch has had its share.
  bool is_new(const FindingKey& key);
  void add(const FindingKey& key, Finding finding);
  void begin_launch();
  int64_t end_launch();  ///< how many were past the limit

  std::vector<Finding> all();
  /// Replaces all; returns those before.
  std::vector<Finding> exchange(std::vector<Finding> findings);
  bool set_quiet(bool quiet);

 private:
  std::mutex mutex_;
  std::vector<Finding> findings_;
  std::map<FindingKey, size_t> index_;
  bool quiet_ = false;
  int n_of_launch_ = 0;
  int64_t n_left_out_ = 0;
};

}  // namespace cudasim
