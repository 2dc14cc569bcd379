#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/parallel/exchange_plan.h"

namespace heddle::lab {

/// A layer as time sees it.
struct Layer {
  std::string name;
  double flops_per_image = 0;  ///< Of the forward pass.
  int64_t parameters = 0;
};

/// What is simulated. Units: seconds, bytes, FLOP, and these a second.
struct Setup {
  std::vector<Layer> layers;
  std::vector<int64_t> images;  ///< Of each replica.
  ExchangeKind kind = ExchangeKind::kDirect;
  Links links{1};
  double flops_per_second = 10e12;
  double memory_bytes_per_second = 1e12;
  double launch_seconds = 5e-6;  ///< Of each layer's kernels, both ways.
  int64_t bucket_bytes = 1 << 20;
  int slow_replica = -1;  ///< -1: none.
  double slow_factor = 2;
  int lost_replica = -1;  ///< It stops halfway through its backward pass.
  int late_replica = -1;  ///< The first copy that it takes begins late.
  double late_seconds = 0;
};

enum class Work { kForward, kBackward, kCopy, kHostCopy, kSum, kUpdate, kWait, kExchange, kDelay };

/// One bar of the timeline.
struct Span {
  int replica;
  bool on_copy_stream;
  Work work;
  double begin;
  double end;
  std::string what;
};

struct Outcome {
  std::vector<Span> spans;
  std::vector<int64_t> bucket_elements;  ///< In the order in which backward makes them ready.
  double step_seconds = 0;               ///< Until the last replica has updated, or the loss.
  double compute_seconds = 0;            ///< Of the slowest replica without any exchange.
  double exposed_seconds = 0;            ///< That the slowest to be updated waited for exchanges.
  double first_copy = -1;                ///< When the exchange began; -1: never.
  double backward_end = 0;               ///< Of the slowest replica.
  size_t exchanged_buckets = 0;
  std::vector<std::vector<int64_t>> bytes;  ///< (from, to)
  std::vector<int64_t> sent, taken;         ///< Of each replica.
  double least_bytes = 0;                   ///< That each replica must send, and take.
};

/// The times of one data-parallel step by a plain model, stated in docs/parallel_lab.md.
Outcome simulate(const Setup& setup);

const char* work_name(Work work);

}  // namespace heddle::lab
