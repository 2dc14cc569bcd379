#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "heddle/core/device.h"
#include "heddle/core/device_span.h"
#include "heddle/core/trace.h"

namespace heddle {

/// The parts of a training step.
enum class Phase : uint8_t { kData, kCopy, kCompute, kReduce, kUpdate };
constexpr int kPhases = 5;
const char* name_of(Phase phase);  ///< "data", "copy", ... A literal.

/// Seconds by phase.
class PhaseSeconds {
 public:
  double& operator[](Phase phase) { return seconds_[static_cast<size_t>(phase)]; }
  double operator[](Phase phase) const { return seconds_[static_cast<size_t>(phase)]; }
  double sum() const;
  PhaseSeconds& operator+=(const PhaseSeconds& other);

 private:
  std::array<double, kPhases> seconds_{};
};

namespace detail {
class PhaseClock;
}

/// Adds up the phases that PhaseSpans of this thread mark while it lives. On the CPU they are times
/// of the steady clock, and a phase inside another is not counted twice. For a CUDA device they
/// are measured by events in the thread's current stream: what the device did there (waiting for
/// a copy or an exchange in another stream included), so what overlaps with computing costs
/// nothing. Waiting for data is the host's time on both. One at a time on a thread.
class PhaseTimer {
 public:
  explicit PhaseTimer(Device device);
  ~PhaseTimer();
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

  /// What has been measured since the last call; waits until the device has ended it.
  PhaseSeconds take();

 private:
  std::unique_ptr<detail::PhaseClock> clock_;
};

/// Part of a step, while it lives; a span in traces too. Without a PhaseTimer on its thread it is
/// that alone. `name` must be a literal.
class [[nodiscard]] PhaseSpan {
 public:
  PhaseSpan(Phase phase, std::string_view name) noexcept;
  ~PhaseSpan();
  PhaseSpan(const PhaseSpan&) = delete;
  PhaseSpan& operator=(const PhaseSpan&) = delete;

 private:
  enum class Measured : uint8_t { kNowhere, kOnHost, kOnDevice };

  Phase phase_;
  Measured measured_ = Measured::kNowhere;
  TraceSpan span_;
  StreamRef stream_;  // that is measured; none on the CPU
  DeviceSpan device_span_;
  int64_t begin_ = 0;
  int64_t inner_before_ = 0;
};

}  // namespace heddle
