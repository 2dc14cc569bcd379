#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace heddle {

namespace detail {
/// Who wants to hear of spans: bit 0 the recorder below, bit 1 a profiler (NVTX).
inline constinit std::atomic<uint32_t> trace_sinks{0};
constexpr uint32_t kTraceRecorder = 1;
constexpr uint32_t kTraceProfiler = 2;
}  // namespace detail

/// Spans that a trace keeps where nobody says otherwise: 72 MB of memory, about 120 MB of text.
/// What comes later is counted and left out.
constexpr int64_t kTraceSpans = 1'000'000;

/// Begins to record the spans of all threads, from nothing. Units of `max_spans`: spans.
void start_trace(int64_t max_spans = kTraceSpans);
/// No span that begins from now on is recorded. What was recorded stays, for write_trace.
void stop_trace();
/// Whether spans are being recorded.
inline bool tracing() {
  return (detail::trace_sinks.load(std::memory_order_relaxed) & detail::kTraceRecorder) != 0;
}

struct TraceCounts {
  int64_t recorded = 0;
  int64_t left_out = 0;  ///< Past max_spans.
};
TraceCounts trace_counts();

/// Writes what was recorded as Chrome's trace-event JSON, which ui.perfetto.dev and
/// chrome://tracing open: a complete event ("X") for each span in microseconds since start_trace,
/// one row for each thread and, below their devices, for each stream. Waits for spans of devices
/// whose work still runs. `process` is the program's name; `write` is called with parts of the
/// text, in order.
void write_trace(const std::string& process, const std::function<void(std::string_view)>& write);

/// The name of this thread in traces and profilers, and (its first 15 characters) in debuggers.
void set_thread_name(std::string_view name);

/// What this thread does while the object lives: `const TraceSpan span("conv2d_forward");`. Spans
/// of a thread nest as objects do. Off, it costs one relaxed load and a branch; recorded, about 0.1
/// us. A name is cut after 47 characters; `category` must be a literal; `number` (a step, a batch)
/// appears beside the name. In a build with CUDA it is an NVTX range too.
class [[nodiscard]] TraceSpan {
 public:
  static constexpr int64_t kNoNumber = INT64_MIN;

  explicit TraceSpan(std::string_view name, const char* category = "op",
                     int64_t number = kNoNumber) noexcept {
    sinks_ = detail::trace_sinks.load(std::memory_order_relaxed);
    if (sinks_ != 0) [[unlikely]]
      begin(name, category, number);
  }
  ~TraceSpan() {
    if (sinks_ != 0) [[unlikely]]
      end();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  void begin(std::string_view name, const char* category, int64_t number) noexcept;
  void end() noexcept;

  uint32_t sinks_;
  uint32_t generation_ = 0;
  int64_t place_ = -1;  // in the thread's list; -1: left out
};

namespace detail {

/// Nanoseconds of the steady clock.
int64_t trace_clock();
/// Adds a span to a row that is no thread's: `row` of `process`, a stream of a device.
void add_trace_span(const std::string& process, const std::string& row, std::string_view name,
                    const char* category, int64_t number, int64_t begin, int64_t end);

/// What a build with CUDA adds. All of them may be null.
struct TraceHooks {
  void (*push)(const char* name) = nullptr;  ///< A profiler's range begins on this thread,
  void (*pop)() = nullptr;                   ///< and the innermost one ends.
  void (*name_thread)(const char* name) = nullptr;
};
void set_profiler_hooks(const TraceHooks& hooks);
/// Called before a trace is written: brings in the spans of devices.
void set_trace_collector(void (*collect)());

}  // namespace detail
}  // namespace heddle
