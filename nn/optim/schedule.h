#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

enum class ScheduleKind { kConstant, kStep, kCosine, kOneCycle };

std::vector<std::string> schedule_names();           ///< "constant", "step", "cosine", "one_cycle"
ScheduleKind parse_schedule(std::string_view text);  ///< Errors: UsageError listing the names.
std::string_view name_of(ScheduleKind kind);

/// Units: steps are optimizer steps, factors multiples of the learning rate.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t total_steps = 0;   ///< Where cosine and one-cycle end.
  int64_t warmup_steps = 0;  ///< Linear from 1/warmup_steps; one-cycle: length of the rise.
  std::vector<int64_t> milestones = {};  ///< Step: the factor is multiplied by gamma from each on.
  double gamma = 0.1;
  double min_factor = 0.0;           ///< Cosine: its end.
  double rise = 0.3;                 ///< One-cycle: the part of all steps that rises.
  double start_factor = 1.0 / 25.0;  ///< One-cycle: its start.
  double final_factor = 1.0 / 25e4;  ///< One-cycle: its end.
};

/// The factor on the learning rate as a pure function of the step, so that a resumed run needs
/// nothing but the number of steps done. Formulas are those of PyTorch's MultiStepLR,
/// CosineAnnealingLR (over what is left after the warm-up) and OneCycleLR (cosine, rate alone).
/// Errors: impossible options, named.
class Schedule {
 public:
  explicit Schedule(ScheduleOptions options = {});
  double factor(int64_t step) const;  ///< Of the update after `step` updates; the first is 0.
  const ScheduleOptions& options() const { return options_; }

 private:
  double one_cycle(int64_t step) const;
  ScheduleOptions options_;
};

}  // namespace heddle
