#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "heddle/core/device.h"

namespace heddle {

/// One host thread for each device, or several that take turns. They live as long as this does, and
/// each has a tape of its own.
class Lanes {
 public:
  explicit Lanes(std::vector<Device> devices);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  int size() const { return static_cast<int>(devices_.size()); }
  const std::vector<Device>& devices() const { return devices_; }

  /// Calls `job(lane)` on all lanes at once and waits for all of them, whatever fails. Work for a
  /// lane's device queues in the stream that is the caller's current one for it. Gradient mode and
  /// Autocast of the caller hold, and each lane has an equal share of num_threads(). Where the
  /// caller captures a graph (nn/step_graph.h), lanes add to it, one after the other; the first
  /// that fails is the last. Errors: the first exception of the lowest lane that threw one, its
  /// device put before the text.
  void run(const std::function<void(int lane)>& job);
  /// The same on n_threads[lane] threads of each lane, or on none: `job(lane, thread)`. Each of
  /// them uses the lane's whole share of num_threads(), so of one lane only one is to compute at a
  /// time.
  void run(const std::vector<int64_t>& n_threads,
           const std::function<void(int lane, int64_t thread)>& job);

 private:
  struct Job;
  class Worker;

  void ask(const std::vector<int64_t>& n_threads,
           const std::function<void(int lane, int64_t thread)>& job);
  std::vector<std::pair<int, Worker*>> workers_for(const std::vector<int64_t>& n_threads);
  [[noreturn]] void rethrow(int lane, const std::exception_ptr& error) const;

  std::vector<Device> devices_;
  std::vector<std::vector<std::unique_ptr<Worker>>> workers_;  // of each lane, as many as needed
};

}  // namespace heddle
