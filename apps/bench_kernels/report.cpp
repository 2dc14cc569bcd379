#include "heddle/apps/bench_kernels/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::bench {
namespace {

std::string rate(const Case& c, double seconds) {
  if (c.flops > 0.0) return fmt::format("{:.1f} GFLOP/s", c.flops / seconds * 1e-9);
  return fmt::format("{:.1f} GB/s", c.bytes / seconds * 1e-9);
}

/// Sides that are a vendor's library alone, or our use of it.
bool is_vendor(const std::string& side) { return side != "native"; }

const Timing* best_vendor(const std::vector<Timing>& timings) {
  const Timing* best = nullptr;
  for (const Timing& timing : timings)
    if (is_vendor(timing.side) && (best == nullptr || timing.median() < best->median()))
      best = &timing;
  return best;
}

}  // namespace

double least_seconds(const Case& c, const Peaks& peaks) {
  if (c.flops == 0.0) return c.bytes / peaks.bandwidth;
  const bool half = size_of(c.dtype) == 2 && peaks.bfloat16 > 0.0;
  return std::max(c.flops / (half ? peaks.bfloat16 : peaks.float32), c.bytes / peaks.bandwidth);
}

CaseResult run_case(const Case& c, Device device, const Rounds& rounds, const Stopwatch& stopwatch,
                    const Peaks& peaks) {
  const std::vector<double> reference = reference_of(c);
  const Prepared prepared = c.prepare({device});
  std::vector<double> errors;  // before the clock: what is measured repeatedly may feed on itself
  for (const Side& side : prepared.sides) {
    const bool own = side.name == "native" || side.name == "vendor";
    errors.push_back(own ? max_error(prepared, side, reference) : -1.0);
  }
  const std::vector<Timing> timings = measure(prepared.sides, rounds, stopwatch);
  const Timing* const best = best_vendor(timings);
  CaseResult result{c, {}};
  result.measured.prepare = nullptr;
  for (size_t i = 0; i < timings.size(); ++i)
    result.sides.push_back({timings[i], least_seconds(c, peaks) / timings[i].median(), errors[i],
                            best == nullptr ? 0.0 : speedup(timings[i], *best)});
  return result;
}

void print_case(const CaseResult& result) {
  const Case& c = result.measured;
  Table table({c.name, "ms", "", "of roof", "spread", "max error", "vs vendor's best"});
  for (const SideResult& side : result.sides) {
    const double seconds = side.timing.median();
    table.row({"  " + side.timing.side, fmt::format("{:.3f}", seconds * 1e3), rate(c, seconds),
               fmt::format("{:.0f}%", side.share_of_roof * 100.0),
               fmt::format("{:.0f}%", side.timing.spread() * 100.0),
               side.max_error < 0.0 ? "" : fmt::format("{:.1e}", side.max_error),
               side.speedup == 0.0 ? "" : fmt::format("{:.2f}", side.speedup)});
  }
  table.print();
}

nlohmann::ordered_json to_json(const CaseResult& result) {
  nlohmann::ordered_json sides = nlohmann::ordered_json::array();
  for (const SideResult& side : result.sides) {
    nlohmann::ordered_json json = to_json(side.timing);
    json["share_of_roof"] = side.share_of_roof;
    if (side.max_error >= 0.0) json["max_error"] = side.max_error;
    if (side.speedup > 0.0) json["speedup_over_vendors_best"] = side.speedup;
    sides.push_back(std::move(json));
  }
  const Case& c = result.measured;
  return {{"name", c.name}, {"flops", c.flops}, {"bytes", c.bytes}, {"sides", std::move(sides)}};
}

}  // namespace heddle::bench
