#include "heddle/nn/optim/schedule.h"

#include "heddle/core/error.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

std::vector<double> factors(const ScheduleOptions& options, int64_t steps) {
  const Schedule schedule(options);
  std::vector<double> result;
  for (int64_t step = 0; step < steps; ++step) result.push_back(schedule.factor(step));
  return result;
}

void check_near(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO("step " << i);
    CHECK(found[i] == Approx(expected[i]).epsilon(1e-9).margin(1e-12));
  }
}

TEST_CASE("schedule: constant, with warm-up") {
  check_near(factors({}, 3), {1, 1, 1});
  check_near(factors({.warmup_steps = 4}, 6), {0.25, 0.5, 0.75, 1, 1, 1});
}

TEST_CASE("schedule: the step comes at its milestone, whenever the run was resumed") {  // CK-6
  const ScheduleOptions options{.kind = ScheduleKind::kStep, .milestones = {4}};
  check_near(factors(options, 6), {1, 1, 1, 1, 0.1, 0.1});
  const Schedule resumed(options);
  CHECK(resumed.factor(3) == 1.0);
  CHECK(resumed.factor(4) == Approx(0.1));
  check_near(factors({.kind = ScheduleKind::kStep, .milestones = {1, 2}, .gamma = 0.5}, 4),
             {1, 0.5, 0.25, 0.25});
}

// Reference values: torch.optim.lr_scheduler.CosineAnnealingLR(T_max=5, eta_min=0.1) at lr 1.
TEST_CASE("schedule: cosine as PyTorch's, after the warm-up and past its end") {
  const ScheduleOptions options{.kind = ScheduleKind::kCosine, .total_steps = 5, .min_factor = 0.1};
  check_near(factors(options, 7), {1, 0.914057647468726, 0.689057647468726, 0.410942352531274,
                                   0.185942352531274, 0.1, 0.1});
  check_near(
      factors(
          {.kind = ScheduleKind::kCosine, .total_steps = 7, .warmup_steps = 2, .min_factor = 0.1},
          4),
      {0.5, 1, 1, 0.914057647468726});
}

// Reference values: torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=10).
TEST_CASE("schedule: one-cycle as PyTorch's") {
  check_near(factors({.kind = ScheduleKind::kOneCycle, .total_steps = 10}, 10),
             {0.04, 0.52, 1, 0.9504846320134738, 0.8117456539497631, 0.6112620219362893,
              0.38874197806371076, 0.18825834605023697, 0.04951936798652621, 4e-06});
  const std::vector<double> found =
      factors({.kind = ScheduleKind::kOneCycle, .total_steps = 10, .warmup_steps = 5}, 12);
  CHECK(found[0] == Approx(0.04));
  CHECK(found[5] == Approx(1.0));
  CHECK(found[9] == Approx(4e-6));
  CHECK(found[11] == Approx(4e-6));
}

TEST_CASE("schedule: names and impossible options") {
  for (const std::string& name : schedule_names()) CHECK(name_of(parse_schedule(name)) == name);
  CHECK_THROWS_AS(parse_schedule("linear"), UsageError);
  CHECK_THROWS_WITH(parse_schedule("linear"), ContainsSubstring("constant, step, cosine"));
  CHECK_THROWS_WITH(Schedule({.kind = ScheduleKind::kCosine}), ContainsSubstring("over 0 steps"));
  CHECK_THROWS_WITH(Schedule({.warmup_steps = -1}), ContainsSubstring("warmup_steps -1"));
  CHECK_THROWS_WITH(Schedule({.gamma = -1.0}), ContainsSubstring("factor is -1"));
  CHECK_THROWS_WITH(Schedule({.rise = 2.0}), ContainsSubstring("rise is 2"));
}

}  // namespace
}  // namespace heddle
