// The recorder of spans: what it writes is trace-event JSON, and its spans nest.
#include "heddle/core/trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "heddle/core/phase.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using Json = nlohmann::json;

Json written() {
  std::string text;
  write_trace("tests", [&](std::string_view part) { text += part; });
  return Json::parse(text);
}

std::vector<Json> spans_of(const Json& trace) {
  std::vector<Json> spans;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "X") spans.push_back(event);
  return spans;
}

Json span_named(const Json& trace, const std::string& name) {
  for (const Json& event : spans_of(trace))
    if (event["name"] == name) return event;
  FAIL("no span " << name);
  return {};
}

std::map<int, std::string> thread_names(const Json& trace) {
  std::map<int, std::string> names;
  for (const Json& event : trace["traceEvents"])
    if (event["name"] == "thread_name" && event["pid"] == 1)
      names[event["tid"]] = event["args"]["name"];
  return names;
}

double begin_of(const Json& span) { return span["ts"]; }
double end_of(const Json& span) { return span["ts"].get<double>() + span["dur"].get<double>(); }

/// Whether no two spans of a row overlap without one holding the other.
bool nests(const Json& trace) {
  constexpr double kRounding = 0.0021;  // times are written to a thousandth
  std::map<std::pair<int, int>, std::vector<Json>> rows;
  for (const Json& span : spans_of(trace)) rows[{span["pid"], span["tid"]}].push_back(span);
  for (const auto& [row, spans] : rows) {
    std::vector<double> open;
    for (const Json& span : spans) {
      while (!open.empty() && open.back() <= begin_of(span) + kRounding) open.pop_back();
      if (!open.empty() && end_of(span) > open.back() + kRounding) return false;
      open.push_back(end_of(span));
    }
  }
  return true;
}

}  // namespace

TEST_CASE("spans nest, and carry names, kinds and numbers", "[trace]") {
  start_trace();
  {
    const TraceSpan step("step", "step", 7);
    { const TraceSpan inner("first \"part\"\n", "op"); }
    const TraceSpan inner("second part", "op");
  }
  stop_trace();
  const Json trace = written();
  CHECK(nests(trace));
  REQUIRE(spans_of(trace).size() == 3);
  const Json step = span_named(trace, "step");
  CHECK(step["cat"] == "step");
  CHECK(step["args"]["number"] == 7);
  const Json first = span_named(trace, "first \"part\"\n"),
             second = span_named(trace, "second part");
  CHECK_FALSE(first.contains("args"));
  CHECK(begin_of(step) <= begin_of(first));
  CHECK(end_of(first) <= begin_of(second));
  CHECK(end_of(second) <= end_of(step));
  CHECK(begin_of(step) >= 0.0);
  CHECK(trace["otherData"]["spans"] == 3);
}

TEST_CASE("nothing is recorded before start_trace and after stop_trace", "[trace]") {
  CHECK_FALSE(tracing());
  { const TraceSpan early("early"); }
  start_trace();
  CHECK(tracing());
  {
    const TraceSpan span("kept");
    stop_trace();
  }
  { const TraceSpan late("late"); }
  const Json trace = written();
  REQUIRE(spans_of(trace).size() == 1);
  CHECK(span_named(trace, "kept")["dur"] > 0.0);
  start_trace();
  CHECK(spans_of(written()).empty());
  stop_trace();
}

TEST_CASE("each thread has a row with its name", "[trace]") {
  constexpr int kThreads = 4, kSpans = 500;
  start_trace();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([i] {
      set_thread_name(fmt::format("worker {}", i));
      for (int n = 0; n < kSpans; ++n) {
        const TraceSpan outer(fmt::format("outer {}", i), "op", n);
        const TraceSpan inner("inner");
      }
    });
  for (std::thread& thread : threads) thread.join();
  stop_trace();
  const Json trace = written();
  CHECK(nests(trace));
  const std::map<int, std::string> names = thread_names(trace);
  std::map<std::string, int> counts;
  for (const Json& span : spans_of(trace)) {
    if (!span["name"].get<std::string>().starts_with("outer")) continue;
    const std::string name = span["name"];
    CHECK(names.at(span["tid"]) == "worker " + name.substr(6));
    ++counts[name];
  }
  REQUIRE(counts.size() == kThreads);
  for (const auto& [name, count] : counts) CHECK(count == kSpans);
}

TEST_CASE("a trace is bounded, and says what it left out", "[trace]") {
  start_trace(10);
  for (int i = 0; i < 25; ++i) const TraceSpan span("span", "op", i);
  const TraceCounts counts = trace_counts();
  CHECK(counts.recorded == 10);
  CHECK(counts.left_out == 15);
  stop_trace();
  const Json trace = written();
  CHECK(spans_of(trace).size() == 10);
  CHECK(trace["otherData"]["left_out"] == 15);
}

TEST_CASE("a span that is open when a trace is written ends there", "[trace]") {
  start_trace();
  const TraceSpan open("open");
  const Json before = written();
  CHECK(end_of(span_named(before, "open")) > 0.0);
  start_trace();  // `open` belongs to the trace before, and must not end a span of this one
  stop_trace();
  CHECK(spans_of(written()).empty());
}

TEST_CASE("long names are cut, and odd bytes stay JSON", "[trace]") {
  start_trace();
  { const TraceSpan span(std::string(46, 'a') + "\xc3\xa9"); }  // cut within a character
  stop_trace();
  const std::string name = spans_of(written()).at(0)["name"];
  CHECK(name.starts_with(std::string(46, 'a')));
}

TEST_CASE("operations are spans by name, forward and backward", "[trace]") {
  Tensor x = full({2, 3}, 1.0);
  x.set_requires_grad(true);
  start_trace();
  sum(relu(x)).backward();
  stop_trace();
  const Json trace = written();
  CHECK(nests(trace));
  CHECK(span_named(trace, "unary_forward")["cat"] == "op");
  CHECK(span_named(trace, "relu")["cat"] == "backward");
  const Json backward = span_named(trace, "relu");
  const Json kernel = span_named(trace, "unary_backward");
  CHECK(begin_of(backward) <= begin_of(kernel));
  CHECK(end_of(kernel) <= end_of(backward) + 0.0021);
}

TEST_CASE("phases inside phases are counted once", "[trace]") {
  PhaseTimer timer(Device::cpu());
  const int64_t begin = detail::trace_clock();
  {
    const PhaseSpan compute(Phase::kCompute, "compute");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const PhaseSpan reduce(Phase::kReduce, "reduce");
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
  { const PhaseSpan update(Phase::kUpdate, "update"); }
  const double passed = static_cast<double>(detail::trace_clock() - begin) / 1e9;
  const PhaseSeconds seconds = timer.take();
  CHECK(seconds[Phase::kCompute] >= 0.002);
  CHECK(seconds[Phase::kReduce] >= 0.004);
  CHECK(seconds.sum() <= passed);
  CHECK(seconds[Phase::kData] == 0.0);
  CHECK(timer.take().sum() == 0.0);
}

TEST_CASE("a thread has one PhaseTimer, and phases need none", "[trace]") {
  { const PhaseSpan alone(Phase::kData, "wait"); }
  const PhaseTimer timer(Device::cpu());
  CHECK_THROWS_WITH(PhaseTimer(Device::cpu()), ContainsSubstring("has one already"));
}

}  // namespace heddle
