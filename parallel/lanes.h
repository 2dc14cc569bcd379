#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "heddle/core/device.h"

namespace heddle {

/// One host thread for each device, which lives as long as this does and has a tape of its own.
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
  /// Autocast of the caller hold, and each lane has an equal share of num_threads().
  /// Errors: the first exception of the lowest lane that threw one, its device put before the text.
  void run(const std::function<void(int lane)>& job);

 private:
  struct Job;
  class Worker;

  [[noreturn]] void rethrow(int lane, const std::exception_ptr& error) const;

  std::vector<Device> devices_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace heddle
