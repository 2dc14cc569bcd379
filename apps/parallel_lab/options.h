#pragma once

#include <string>

#include "heddle/apps/parallel_lab/simulate.h"
#include "heddle/apps/support/flags.h"

namespace heddle::lab {

struct Options {
  std::string model = "simple_cnn";
  int64_t replicas = 4;
  int64_t batch_size = 256;
  std::string split = "even";
  std::string exchange = "auto";
  bool any_order = false;
  std::string measure;
  double bandwidth = 20;
  double latency = 10;
  double tflops = 10;
  double memory_bandwidth = 1000;
  double bucket_mib = 1;
  std::string no_peer = "none";
  int64_t slow_replica = -1;
  double slow_factor = 2;
  int64_t lost_replica = -1;
  int64_t late_replica = -1;
  double late_ms = 1;
  std::string svg;
  std::string json;
};

void add_flags(apps::FlagSet& flags, Options& options);

/// Errors: UsageError naming the flag.
Setup make_setup(const Options& options);

}  // namespace heddle::lab
