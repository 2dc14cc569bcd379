#include "heddle/core/phase.h"

#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include "heddle/core/flavour.h"
#ifdef HEDDLE_WITH_CUDA
#include "heddle/core/event.h"
#endif

namespace heddle {

/// Where a thread's phases are added up.
class detail::PhaseClock {
 public:
  explicit PhaseClock(Device device) : device_(device) {}

  Device device() const { return device_; }
  void add(Phase phase, double seconds) { seconds_[phase] += seconds; }

  PhaseSeconds take() {
    while (!pending_.empty()) resolve_first();
    return std::exchange(seconds_, {});
  }

  /// Marks the beginning of a device's phase.
  void begin(Phase phase, StreamRef stream);
  void end(StreamRef stream);  ///< Of the innermost phase that began.

  int64_t inner = 0;  ///< Nanoseconds of phases inside the one that runs, on the CPU.

 private:
#ifdef HEDDLE_WITH_CUDA
  struct Marks {
    explicit Marks(Device device) : begin(device), end(device) {}
    TimedEvent begin, end;
    Phase phase = Phase::kCompute;
  };
#else
  struct Marks {};
#endif
  void resolve_first();
  void resolve_done();

  Device device_;
  PhaseSeconds seconds_;
  std::vector<std::unique_ptr<Marks>> open_;
  std::deque<std::unique_ptr<Marks>> pending_;
  std::vector<std::unique_ptr<Marks>> spare_;
};

namespace {

thread_local detail::PhaseClock* t_clock = nullptr;

double seconds_of(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

/// The stream that a phase is measured in: none on the CPU, and none for waiting for data.
StreamRef stream_of(Phase phase) noexcept {
  if (t_clock == nullptr || phase == Phase::kData) return {};
  if (t_clock->device().type == DeviceType::kCpu) return {};
  try {
    const StreamRef stream = current_stream(t_clock->device());
    return detail::is_capturing(stream) ? StreamRef() : stream;
  } catch (const Error&) {  // the next call that matters says what is wrong with the device
    return {};
  }
}

}  // namespace

#ifdef HEDDLE_WITH_CUDA

constexpr size_t kPendingPhases = 256;  // then those that are done are added up

void detail::PhaseClock::begin(Phase phase, StreamRef stream) {
  if (pending_.size() >= kPendingPhases) resolve_done();
  std::unique_ptr<Marks> marks;
  if (spare_.empty()) {
    marks = std::make_unique<Marks>(device_);
  } else {
    marks = std::move(spare_.back());
    spare_.pop_back();
  }
  marks->phase = phase;
  marks->begin.record(stream);
  open_.push_back(std::move(marks));
}

void detail::PhaseClock::end(StreamRef stream) {
  std::unique_ptr<Marks> marks = std::move(open_.back());
  open_.pop_back();
  marks->end.record(stream);
  pending_.push_back(std::move(marks));
}

void detail::PhaseClock::resolve_first() {
  std::unique_ptr<Marks> marks = std::move(pending_.front());
  pending_.pop_front();
  add(marks->phase, (marks->end - marks->begin).count());
  spare_.push_back(std::move(marks));
}

void detail::PhaseClock::resolve_done() {
  while (!pending_.empty() && pending_.front()->end.ref().is_done()) resolve_first();
}

#else

void detail::PhaseClock::begin(Phase, StreamRef) {}
void detail::PhaseClock::end(StreamRef) {}
void detail::PhaseClock::resolve_first() { pending_.pop_front(); }

#endif

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::kData:
      return "data";
    case Phase::kCopy:
      return "copy";
    case Phase::kCompute:
      return "compute";
    case Phase::kReduce:
      return "reduce";
    case Phase::kUpdate:
      return "update";
  }
  return "";
}

double PhaseSeconds::sum() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }

PhaseSeconds& PhaseSeconds::operator+=(const PhaseSeconds& other) {
  for (size_t i = 0; i < seconds_.size(); ++i) seconds_[i] += other.seconds_[i];
  return *this;
}

PhaseTimer::PhaseTimer(Device device) : clock_(std::make_unique<detail::PhaseClock>(device)) {
  HEDDLE_CHECK(t_clock == nullptr, "PhaseTimer: this thread has one already");
  t_clock = clock_.get();
}

PhaseTimer::~PhaseTimer() { t_clock = nullptr; }

PhaseSeconds PhaseTimer::take() { return clock_->take(); }

PhaseSpan::PhaseSpan(Phase phase, std::string_view name) noexcept
    : phase_(phase),
      span_(name, name_of(phase)),
      stream_(stream_of(phase)),
      device_span_(name, name_of(phase), stream_) {
  if (t_clock == nullptr) return;
  if (stream_.get() != nullptr) {
    try {
      t_clock->begin(phase, stream_);
      measured_ = Measured::kOnDevice;
    } catch (const std::exception&) {  // said by the next call that matters
    }
  } else if (phase == Phase::kData || t_clock->device().type == DeviceType::kCpu) {
    measured_ = Measured::kOnHost;
    begin_ = detail::trace_clock();
    inner_before_ = std::exchange(t_clock->inner, 0);
  }
}

PhaseSpan::~PhaseSpan() {
  if (measured_ == Measured::kNowhere || t_clock == nullptr) return;
  if (measured_ == Measured::kOnHost) {
    const int64_t passed = detail::trace_clock() - begin_;
    t_clock->add(phase_, seconds_of(passed - t_clock->inner));
    t_clock->inner = inner_before_ + passed;
    return;
  }
  try {
    t_clock->end(stream_);
  } catch (const std::exception&) {
  }
}

}  // namespace heddle
