// Reads back what core/trace.h has recorded, as the JSON that it writes for viewers.
#include "heddle/apps/parallel_lab/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "heddle/core/error.h"
#include "heddle/core/trace.h"

namespace heddle::lab {
namespace {

struct Event {
  std::string name, category;
  int64_t number = -1;
  double begin = 0, end = 0;  // seconds
};

/// The events of one thread or stream, by beginnings.
using Row = std::vector<Event>;
/// By the names of process and row.
using Rows = std::map<std::pair<std::string, std::string>, Row>;

Rows read_rows(const std::string& text) {
  const nlohmann::json events = nlohmann::json::parse(text).at("traceEvents");
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  Rows rows;
  for (const nlohmann::json& e : events) {
    const int process = e.at("pid"), thread = e.at("tid");
    if (e.at("ph") == "M") {
      const std::string name = e.at("args").at("name");
      if (e.at("name") == "process_name") processes[process] = name;
      if (e.at("name") == "thread_name") threads[{process, thread}] = name;
      continue;
    }
    const double begin = e.at("ts"), seconds = e.at("dur");
    rows[{processes[process], threads[{process, thread}]}].push_back(
        {e.at("name"), e.at("cat"), e.contains("args") ? e.at("args").value("number", -1) : -1,
         begin * 1e-6, (begin + seconds) * 1e-6});
  }
  for (auto& [key, row] : rows)
    std::stable_sort(row.begin(), row.end(),
                     [](const Event& a, const Event& b) { return a.begin < b.begin; });
  return rows;
}

/// A module that is made of others: what it does is theirs.
bool is_container(const Row& row, size_t i) {
  if (row[i].category != "module") return false;
  for (size_t k = i + 1; k < row.size() && row[k].begin < row[i].end; ++k)
    if (row[k].category == "module") return true;
  return false;
}

class Reader {
 public:
  explicit Reader(int replica, std::optional<double> update) : replica_(replica), update_(update) {}

  /// A thread that computes: its outermost spans, and what is injected or exchanged inside.
  void read_thread(const Row& row) {
    double covered = -1;
    bool backward = false;
    for (size_t i = 0; i < row.size(); ++i) {
      const Event& e = row[i];
      if (e.category == "exchange") add(true, Work::kExchange, e, bucket_name(e));
      if (e.category == "fault") add(false, Work::kDelay, e, e.name);
      if (e.category == "exchange" || e.category == "fault" || e.begin < covered ||
          is_container(row, i))
        continue;
      covered = e.end;
      backward |= e.category == "backward";
      const bool updates = update_ && e.begin >= *update_;
      add(false, updates ? Work::kUpdate : backward ? Work::kBackward : Work::kForward, e, e.name);
    }
  }

  /// A stream that computes: kernels, told apart by what comes between the passes.
  void read_compute(const Row& row) {
    bool backward = false;
    for (const Event& e : row) {
      const bool updates = e.name.starts_with("adam_step");
      add(false, updates ? Work::kUpdate : backward ? Work::kBackward : Work::kForward, e, e.name);
      backward |= e.name.starts_with("cross_entropy");
    }
  }

  void read_exchange(const Row& row) {
    for (const Event& e : row) add(true, Work::kExchange, e, bucket_name(e));
  }

  /// With the waits between a replica's own work and its update, or the end.
  std::vector<Span> finish(double end) {
    double busy = 0, resumed = end;
    for (const Span& span : spans_) {
      if (span.on_copy_stream) continue;
      if (span.work == Work::kUpdate) resumed = std::min(resumed, span.begin);
      if (span.work != Work::kUpdate) busy = std::max(busy, span.end);
    }
    if (busy > 0 && resumed > busy)
      spans_.push_back({replica_, false, Work::kWait, busy, resumed, "waits for the others"});
    return std::move(spans_);
  }

 private:
  static std::string bucket_name(const Event& e) { return fmt::format("bucket {}", e.number); }

  void add(bool on_copy_stream, Work work, const Event& e, const std::string& what) {
    spans_.push_back({replica_, on_copy_stream, work, e.begin, e.end, what});
  }

  int replica_;
  std::optional<double> update_;  // when it began, for threads
  std::vector<Span> spans_;
};

/// The spans in the order in which they are drawn, with times from the first one on.
void settle(Timeline& timeline) {
  double begin = 1e300;
  for (const Span& span : timeline.spans) begin = std::min(begin, span.begin);
  for (Span& span : timeline.spans) {
    span.begin -= begin;
    span.end -= begin;
    timeline.seconds = std::max(timeline.seconds, span.end);
  }
  std::stable_sort(timeline.spans.begin(), timeline.spans.end(), [](const Span& a, const Span& b) {
    return (a.work == Work::kDelay) < (b.work == Work::kDelay);
  });
}

Timeline timeline_of(const Rows& rows, const std::vector<Device>& devices) {
  const auto row_of = [&](const std::string& process, const std::string& name) -> const Row& {
    static const Row none;
    const auto found = rows.find({process, name});
    return found == rows.end() ? none : found->second;
  };
  std::optional<double> update;
  double end = 0;
  for (const auto& [key, row] : rows)
    for (const Event& e : row) {
      if (e.category == "update") update = e.begin;
      if (e.category == "step") end = e.end;
    }
  Timeline timeline;
  const bool on_cpu = devices[0].type == DeviceType::kCpu;
  timeline.clock = on_cpu ? "the host's clock" : "events on the devices";
  for (size_t r = 0; r < devices.size(); ++r) {
    Reader reader(static_cast<int>(r), update);
    if (on_cpu) {
      reader.read_thread(row_of("parallel_lab", replica_row(static_cast<int>(r))));
    } else {
      reader.read_compute(row_of(devices[r].to_string(), "compute"));
      reader.read_exchange(row_of(devices[r].to_string(), "exchange"));
    }
    for (Span& span : reader.finish(end)) timeline.spans.push_back(std::move(span));
  }
  settle(timeline);
  return timeline;
}

}  // namespace

std::string replica_row(int replica) { return fmt::format("replica {}", replica); }

Timeline trace_step(const std::vector<Device>& devices, const std::function<void()>& step) {
  start_trace();
  {
    const TraceSpan span("step", "step");
    step();
  }
  stop_trace();
  std::string text;
  write_trace("parallel_lab", [&](std::string_view part) { text += part; });
  return timeline_of(read_rows(text), devices);
}

}  // namespace heddle::lab
