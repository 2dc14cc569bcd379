// Each thread writes into a list of its own, under a lock that nobody else wants until the trace is
// written. A span enters its list when it begins, so the list is in order of beginnings, and one
// that is still open when the trace is written ends there.
#include "heddle/core/trace.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "heddle/core/version.h"

namespace heddle {
namespace {

constexpr size_t kNameBytes = 48;
using Name = std::array<char, kNameBytes>;

Name copy_name(std::string_view text) {
  Name name{};
  std::memcpy(name.data(), text.data(), std::min(text.size(), kNameBytes - 1));
  return name;
}

struct Span {
  Name name;
  const char* category;
  int64_t number;
  int64_t begin;
  int64_t end;  // 0: still open
};

/// The spans of one thread, or of one stream.
struct Row {
  std::mutex mutex;
  std::string process;  // of a stream: its device
  std::string name;
  int number = 0;
  uint32_t generation = 0;  // of the spans: a new trace has new ones
  std::deque<Span> spans;
};

/// Never destroyed: threads may end after static objects do.
struct Recorder {
  std::mutex mutex;  // never taken while a row's is held
  std::vector<std::shared_ptr<Row>> threads;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Row>> streams;
  int n_threads = 0;
  std::atomic<int64_t> room{0};
  std::atomic<int64_t> left_out{0};
  int64_t max_spans = 0;
  int64_t start = 0;
  std::atomic<void (*)()> collect{nullptr};
  std::atomic<void (*)(const char*)> push{nullptr};
  std::atomic<void (*)()> pop{nullptr};
  std::atomic<void (*)(const char*)> name_thread{nullptr};
};

Recorder& recorder() {
  static auto* const the_recorder = new Recorder;
  return *the_recorder;
}

thread_local Name t_thread_name{};
thread_local std::shared_ptr<Row> t_row;

/// This thread's row, made at its first span.
Row& own_row() {
  if (t_row != nullptr) return *t_row;
  Recorder& all = recorder();
  auto row = std::make_shared<Row>();
  const std::lock_guard lock(all.mutex);
  row->number = ++all.n_threads;
  row->name =
      t_thread_name[0] != '\0' ? t_thread_name.data() : fmt::format("thread {}", row->number);
  all.threads.push_back(row);
  t_row = row;
  return *row;
}

bool take_room() {
  Recorder& all = recorder();
  if (all.room.fetch_sub(1, std::memory_order_relaxed) > 0) return true;
  all.left_out.fetch_add(1, std::memory_order_relaxed);
  return false;
}

/// As JSON, whatever bytes it has (a name that was cut may end inside a character).
std::string json_text(std::string_view text) {
  using Json = nlohmann::json;
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Writes one event after the other, and hands the text on in parts.
class EventWriter {
 public:
  explicit EventWriter(const std::function<void(std::string_view)>& write) : write_(write) {}

  void metadata(const char* what, int process, int thread, const std::string& name) {
    next();
    text_ += fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                         process, thread, json_text(name));
  }

  void span(const Span& span, int process, int thread, int64_t start, int64_t now) {
    next();
    const int64_t end = span.end == 0 ? std::max(now, span.begin) : span.end;
    text_ += fmt::format(
        R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})",
        json_text(span.name.data()), span.category, process, thread,
        static_cast<double>(span.begin - start) / 1e3, static_cast<double>(end - span.begin) / 1e3);
    if (span.number != TraceSpan::kNoNumber)
      text_ += fmt::format(R"(,"args":{{"number":{}}})", span.number);
    text_ += '}';
    if (text_.size() >= kPart) flush();
  }

  void row(Row& row, int process, int64_t start, int64_t now) {
    const std::lock_guard lock(row.mutex);
    metadata("thread_name", process, row.number, row.name);
    for (const Span& one : row.spans) span(one, process, row.number, start, now);
  }

  void text(std::string_view more) { text_ += more; }
  void flush() {
    write_(text_);
    text_.clear();
  }

 private:
  static constexpr size_t kPart = 1 << 20;

  void next() {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
  }

  const std::function<void(std::string_view)>& write_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

int64_t detail::trace_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void start_trace(int64_t max_spans) {
  Recorder& all = recorder();
  stop_trace();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.threads, [](const auto& row) { return row.use_count() == 1; });  // has ended
  for (const auto& row : all.threads) {
    const std::lock_guard row_lock(row->mutex);
    ++row->generation;
    row->spans.clear();
  }
  all.streams.clear();
  all.max_spans = max_spans;
  all.room = max_spans;
  all.left_out = 0;
  all.start = detail::trace_clock();
  detail::trace_sinks |= detail::kTraceRecorder;
}

void stop_trace() { detail::trace_sinks &= ~detail::kTraceRecorder; }

TraceCounts trace_counts() {
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  const int64_t room = std::max<int64_t>(all.room, 0);
  return {.recorded = all.max_spans - room, .left_out = all.left_out};
}

void TraceSpan::begin(std::string_view name, const char* category, int64_t number) noexcept {
  Recorder& all = recorder();
  if ((sinks_ & detail::kTraceProfiler) != 0)
    if (auto* const push = all.push.load()) push(copy_name(name).data());
  if ((sinks_ & detail::kTraceRecorder) == 0 || !take_room()) return;
  try {
    Row& row = own_row();
    const std::lock_guard lock(row.mutex);
    generation_ = row.generation;
    row.spans.push_back({copy_name(name), category, number, detail::trace_clock(), 0});
    place_ = static_cast<int64_t>(row.spans.size()) - 1;
  } catch (const std::bad_alloc&) {  // the span is left out
    ++all.left_out;
  }
}

void TraceSpan::end() noexcept {
  Recorder& all = recorder();
  if ((sinks_ & detail::kTraceProfiler) != 0)
    if (auto* const pop = all.pop.load()) pop();
  if (place_ < 0) return;
  Row& row = *t_row;
  const std::lock_guard lock(row.mutex);
  if (generation_ != row.generation) return;  // another trace has begun
  row.spans[static_cast<size_t>(place_)].end = detail::trace_clock();
}

void set_thread_name(std::string_view name) {
  t_thread_name = copy_name(name);
  if (gettid() != getpid()) {  // the first thread's name is that of the process
    Name system_name = t_thread_name;
    system_name[15] = '\0';  // all that Linux takes
    pthread_setname_np(pthread_self(), system_name.data());
  }
  if (auto* const name_thread = recorder().name_thread.load()) name_thread(t_thread_name.data());
  if (t_row == nullptr) return;
  const std::lock_guard lock(t_row->mutex);
  t_row->name = t_thread_name.data();
}

void detail::add_trace_span(const std::string& process, const std::string& row_name,
                            std::string_view name, const char* category, int64_t number,
                            int64_t begin, int64_t end) {
  if (!take_room()) return;
  Recorder& all = recorder();
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<Row>& row = all.streams[{process, row_name}];
  if (row == nullptr) {
    row = std::make_shared<Row>();
    row->process = process;
    row->name = row_name;
    row->number = static_cast<int>(all.streams.size());
  }
  row->spans.push_back({copy_name(name), category, number, begin, end});
}

void detail::set_profiler_hooks(const TraceHooks& hooks) {
  Recorder& all = recorder();
  all.push = hooks.push;
  all.pop = hooks.pop;
  all.name_thread = hooks.name_thread;
  if (hooks.push != nullptr) {
    trace_sinks |= kTraceProfiler;
  } else {
    trace_sinks &= ~kTraceProfiler;
  }
}

void detail::set_trace_collector(void (*collect)()) { recorder().collect = collect; }

void write_trace(const std::string& process, const std::function<void(std::string_view)>& write) {
  Recorder& all = recorder();
  if (auto* const collect = all.collect.load()) collect();
  const int64_t now = detail::trace_clock();
  const TraceCounts counts = trace_counts();
  const std::lock_guard lock(all.mutex);
  EventWriter events(write);
  events.text(R"({"displayTimeUnit":"ms","traceEvents":[)");
  events.metadata("process_name", 1, 0, process);
  for (const auto& row : all.threads) events.row(*row, 1, all.start, now);
  std::map<std::string, int> devices;  // to their process numbers
  for (const auto& [key, row] : all.streams) {
    const auto [found, fresh] =
        devices.try_emplace(row->process, static_cast<int>(devices.size()) + 2);
    if (fresh) events.metadata("process_name", found->second, 0, row->process);
    events.row(*row, found->second, all.start, now);
  }
  events.text(fmt::format("\n],\"otherData\":{{\"heddle\":{},\"spans\":{},\"left_out\":{}}}}}\n",
                          json_text(version()), counts.recorded, counts.left_out));
  events.flush();
}

}  // namespace heddle
