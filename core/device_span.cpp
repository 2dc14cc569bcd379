// A device's clock is not the host's. The first span on a device waits for its stream once, and
// takes the host's time then for that of the event it waited for: the anchor. Times of other events
// are measured from it. cudaEventElapsedTime gives a float of milliseconds, so the anchor moves
// along: a span that lies a second after it becomes the next one.
#include "heddle/core/device_span.h"

#include "heddle/core/flavour.h"

#ifdef HEDDLE_WITH_CUDA

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "heddle/core/event.h"

namespace heddle {

struct detail::DeviceSpanMarks {
  explicit DeviceSpanMarks(Device device) : begin(device), end(device) {}
  TimedEvent begin, end;
  StreamRef stream;
  std::string name;
  const char* category = "";
  int64_t number = 0;
};

namespace {

using Marks = detail::DeviceSpanMarks;

constexpr size_t kPendingSpans = 8192;  // of a device; then those that are done are brought in
constexpr double kAnchorSeconds = 1.0;

struct Anchor {
  std::unique_ptr<Marks> at;
  double host = 0.0;  // nanoseconds of trace_clock() at its beginning
};

struct DeviceRows {
  explicit DeviceRows(Device which) : device(which) {}
  Device device;
  std::mutex mutex;
  Anchor anchor;
  std::deque<std::unique_ptr<Marks>> pending;
  std::vector<std::unique_ptr<Marks>> spare;
  std::unordered_map<CUstream_st*, std::string> names;

  std::string row_of(StreamRef stream) {
    std::string& name = names[stream.get()];
    if (name.empty()) name = fmt::format("stream {}", names.size());
    return name;
  }
};

/// Never destroyed: events must not outlive the driver.
struct AllRows {
  std::mutex mutex;
  std::vector<std::unique_ptr<DeviceRows>> devices;
};

AllRows& all_rows() {
  static auto* const all = new AllRows;
  return *all;
}

DeviceRows& rows_of(Device device) {
  AllRows& all = all_rows();
  const std::lock_guard lock(all.mutex);
  for (const auto& rows : all.devices)
    if (rows->device == device) return *rows;
  all.devices.push_back(std::make_unique<DeviceRows>(device));
  DeviceRows& rows = *all.devices.back();
  rows.names[current_stream(device).get()] = "compute";
  return rows;
}

std::unique_ptr<Marks> take_marks(DeviceRows& rows) {
  if (rows.spare.empty()) return std::make_unique<Marks>(rows.device);
  std::unique_ptr<Marks> marks = std::move(rows.spare.back());
  rows.spare.pop_back();
  return marks;
}

void set_anchor(DeviceRows& rows, StreamRef stream) {
  rows.anchor.at = take_marks(rows);
  rows.anchor.at->begin.record(stream);
  rows.anchor.at->begin.synchronize();
  rows.anchor.host = static_cast<double>(detail::trace_clock());
}

void bring_in(DeviceRows& rows, std::unique_ptr<Marks> marks) {
  constexpr double kNanoseconds = 1e9;
  const double from_anchor = (marks->begin - rows.anchor.at->begin).count();
  const double begin = rows.anchor.host + from_anchor * kNanoseconds;
  const double end = begin + (marks->end - marks->begin).count() * kNanoseconds;
  detail::add_trace_span(marks->stream.device().to_string(), rows.row_of(marks->stream),
                         marks->name, marks->category, marks->number, static_cast<int64_t>(begin),
                         static_cast<int64_t>(end));
  if (from_anchor > kAnchorSeconds) {
    rows.anchor.host = begin;
    std::swap(rows.anchor.at, marks);
  }
  rows.spare.push_back(std::move(marks));
}

void bring_in_done(DeviceRows& rows) {
  while (!rows.pending.empty() && rows.pending.front()->end.ref().is_done()) {
    std::unique_ptr<Marks> marks = std::move(rows.pending.front());
    rows.pending.pop_front();
    bring_in(rows, std::move(marks));
  }
}

/// A device that has failed keeps its spans to itself.
void collect(DeviceRows& rows) noexcept {
  const std::lock_guard lock(rows.mutex);
  try {
    while (!rows.pending.empty()) {
      std::unique_ptr<Marks> marks = std::move(rows.pending.front());
      rows.pending.pop_front();
      bring_in(rows, std::move(marks));
    }
  } catch (const Error&) {
    rows.pending.clear();
  }
}

void collect_all() {
  const std::lock_guard lock(all_rows().mutex);
  for (const auto& rows : all_rows().devices) collect(*rows);
}

}  // namespace

void DeviceSpan::begin(std::string_view name, const char* category, StreamRef stream,
                       int64_t number) noexcept {
  try {
    if (detail::is_capturing(stream)) return;
    DeviceRows& rows = rows_of(stream.device());
    const std::lock_guard lock(rows.mutex);
    if (rows.anchor.at == nullptr) {
      detail::set_trace_collector(&collect_all);
      set_anchor(rows, stream);
    }
    if (rows.pending.size() >= kPendingSpans) bring_in_done(rows);
    std::unique_ptr<Marks> marks = take_marks(rows);
    marks->stream = stream;
    marks->name = name;
    marks->category = category;
    marks->number = number;
    marks->begin.record(stream);
    marks_ = marks.release();
  } catch (const std::exception&) {  // what failed is said by the next call that matters
  }
}

void DeviceSpan::end() noexcept {
  std::unique_ptr<Marks> marks(marks_);
  try {
    DeviceRows& rows = rows_of(marks->stream.device());
    const std::lock_guard lock(rows.mutex);
    marks->end.record(marks->stream);
    rows.pending.push_back(std::move(marks));
  } catch (const std::exception&) {
  }
}

void set_stream_name(StreamRef stream, const std::string& name) {
  if (stream.get() == nullptr) return;
  DeviceRows& rows = rows_of(stream.device());
  const std::lock_guard lock(rows.mutex);
  rows.names[stream.get()] = name;
}

}  // namespace heddle

#else

namespace heddle {

void DeviceSpan::begin(std::string_view, const char*, StreamRef, int64_t) noexcept {}
void DeviceSpan::end() noexcept {}
void set_stream_name(StreamRef, const std::string&) {}
bool detail::is_capturing(StreamRef) { return false; }

}  // namespace heddle

#endif
