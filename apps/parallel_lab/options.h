#pragma once

#include <string>
#include <vector>

#include "heddle/apps/parallel_lab/run.h"
#include "heddle/apps/parallel_lab/simulate.h"
#include "heddle/apps/support/flags.h"

namespace heddle::lab {

struct Options {
  std::string model = "small_cnn";
  std::string devices = "default";
  int64_t replicas = 4;
  int64_t steps = 3;
  int64_t batch_size = 64;
  std::string split = "even";
  std::string exchange = "auto";
  bool any_order = false;
  std::string links = "given";
  double bandwidth = 20;
  double latency = 10;
  double tflops = 10;
  double memory_bandwidth = 1000;
  double bucket_mib = 0;
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

/// Errors: UsageError where flags contradict each other, or were given in vain.
void check_flags(const apps::FlagSet& flags, const Options& options);

/// The devices that run the steps; none where steps are simulated alone. Sets `replicas`, which may
/// have been `given`, to their number. Makes as many virtual devices as are asked for.
/// Errors: UsageError naming the flag, as of all of these.
std::vector<Device> choose_devices(Options& options, bool replicas_given);
Setup make_setup(const Options& options, const std::vector<Device>& devices);
RunSetup make_run_setup(const Options& options, const std::vector<Device>& devices,
                        const Setup& setup);

}  // namespace heddle::lab
