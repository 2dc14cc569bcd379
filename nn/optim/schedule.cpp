#include "heddle/nn/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "heddle/core/error.h"

namespace heddle {
namespace {

constexpr ScheduleKind kKinds[] = {ScheduleKind::kConstant, ScheduleKind::kStep,
                                   ScheduleKind::kCosine, ScheduleKind::kOneCycle};

/// From `from` at 0 to `to` at 1 along half a cosine.
double cosine_between(double from, double to, double part) {
  return to + (from - to) * 0.5 * (1.0 + std::cos(std::numbers::pi * part));
}

}  // namespace

std::string_view name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return "constant";
    case ScheduleKind::kStep:
      return "step";
    case ScheduleKind::kCosine:
      return "cosine";
    case ScheduleKind::kOneCycle:
      return "one_cycle";
  }
  fail("schedule: kind {} is not one of heddle's", static_cast<int>(kind));
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleKind kind : kKinds) names.emplace_back(name_of(kind));
  return names;
}

ScheduleKind parse_schedule(std::string_view text) {
  for (const ScheduleKind kind : kKinds)
    if (text == name_of(kind)) return kind;
  throw UsageError(fmt::format(
      "schedule: found \"{}\", expected one of constant, step, cosine, one_cycle", text));
}

Schedule::Schedule(ScheduleOptions options) : options_(std::move(options)) {
  const ScheduleOptions& o = options_;
  HEDDLE_CHECK(o.total_steps >= 0 && o.warmup_steps >= 0,
               "schedule: total_steps {} and warmup_steps {}, expected at least 0", o.total_steps,
               o.warmup_steps);
  for (const double factor : {o.gamma, o.min_factor, o.start_factor, o.final_factor})
    HEDDLE_CHECK(std::isfinite(factor) && factor >= 0.0,
                 "schedule: a factor is {}, expected a number of at least 0", factor);
  HEDDLE_CHECK(o.rise >= 0.0 && o.rise <= 1.0, "schedule: rise is {}, expected 0 to 1", o.rise);
  const bool ends = o.kind == ScheduleKind::kCosine || o.kind == ScheduleKind::kOneCycle;
  HEDDLE_CHECK(!ends || o.total_steps > o.warmup_steps,
               "schedule: {} over {} steps with {} of warm-up, expected more steps than warm-up",
               name_of(o.kind), o.total_steps, o.warmup_steps);
}

double Schedule::factor(int64_t step) const {
  const ScheduleOptions& o = options_;
  if (o.kind == ScheduleKind::kOneCycle) return one_cycle(step);
  double factor = 1.0;
  if (o.kind == ScheduleKind::kStep)
    for (const int64_t milestone : o.milestones) factor *= step >= milestone ? o.gamma : 1.0;
  if (step < o.warmup_steps)
    return factor * static_cast<double>(step + 1) / static_cast<double>(o.warmup_steps);
  if (o.kind == ScheduleKind::kCosine) {
    const double part = static_cast<double>(step - o.warmup_steps) /
                        static_cast<double>(o.total_steps - o.warmup_steps);
    factor = cosine_between(1.0, o.min_factor, std::min(part, 1.0));
  }
  return factor;
}

double Schedule::one_cycle(int64_t step) const {
  const ScheduleOptions& o = options_;
  const double last = static_cast<double>(o.total_steps - 1);
  const double peak = o.warmup_steps > 0 ? static_cast<double>(o.warmup_steps)
                                         : std::max(0.0, o.rise * (last + 1.0) - 1.0);
  const double place = std::min(static_cast<double>(step), last);
  if (place <= peak) return peak > 0.0 ? cosine_between(o.start_factor, 1.0, place / peak) : 1.0;
  return cosine_between(1.0, o.final_factor, (place - peak) / (last - peak));
}

}  // namespace heddle
