#pragma once

#include <string>
#include <vector>

#include "heddle/apps/bench_kernels/cases.h"

namespace heddle::bench {

struct Options {
  std::string filter, json, picture, isa = "best", device = "cpu";
  int64_t rounds = 7, threads = 0, batch = 0;
  bool list = false, rounds_given = false;
};

/// The sizes of cases on a device; `batch` 0 stands for the default.
Scale scale_for(Device device, int64_t batch);

/// Measures the cases on the device that the options name, prints them and writes the files.
void run_cases(const Options& options, Device device, const std::vector<Case>& cases);

}  // namespace heddle::bench
