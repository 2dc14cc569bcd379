// The account of an epoch's time, and the verdict on it.
#include "heddle/apps/train_cifar/step_times.h"

#include "heddle/tests/support/catch.h"

namespace heddle::train_cifar {
namespace {

const Device kCuda{DeviceType::kCuda, 0};

PhaseSeconds phases(double data, double copy, double compute, double reduce, double update) {
  PhaseSeconds seconds;
  seconds[Phase::kData] = data;
  seconds[Phase::kCopy] = copy;
  seconds[Phase::kCompute] = compute;
  seconds[Phase::kReduce] = reduce;
  seconds[Phase::kUpdate] = update;
  return seconds;
}

std::string verdict_on(const PhaseSeconds& seconds, double wall, Device device = Device::cpu()) {
  return verdict(account_for(seconds, wall), device, 2);
}

}  // namespace

TEST_CASE("the account adds up to the wall time") {
  const StepTimes times = account_for(phases(1, 0, 6, 0, 2), 10);
  CHECK(times.total() == Approx(10));
  CHECK(times.other == Approx(1));
  CHECK(times.share(Phase::kCompute) == Approx(0.6));
}

TEST_CASE("waiting that a busy device hides is no waiting") {
  CHECK(account_for(phases(5, 0, 9, 0, 1), 10).phases[Phase::kData] == 0.0);
  CHECK(account_for(phases(5, 0, 6, 0, 1), 10).phases[Phase::kData] == Approx(3));
  CHECK(account_for(phases(0, 0, 0, 0, 0), 0).share(Phase::kData) == 0.0);
}

TEST_CASE("the verdict names what held an epoch back, and what to do") {
  CHECK(verdict_on(phases(3.1, 0, 6, 0, 0.9), 10) ==
        "input-bound 31%: raise --workers above 2 (compute 60%, update 9%)");
  CHECK(verdict(account_for(phases(3.1, 0, 6, 0, 0.9), 10), Device::cpu(), 2, /*tuned=*/true) ==
        "input-bound 31%: the loader's 2 workers do not keep up (compute 60%)");
  CHECK(verdict_on(phases(0.9, 0, 8, 0, 1.1), 10) == "compute-bound 91% (wait 9%)");
  CHECK(verdict_on(phases(0, 1.5, 8, 0, 0.5), 10) ==
        "copy-bound 15%: raise --batch-size (compute 80%, update 5%)");
  CHECK(verdict_on(phases(0, 0, 7, 2, 1), 10) ==
        "reduce-bound 20%: raise --batch-size, or use fewer devices (compute 70%)");
  CHECK(verdict_on(phases(0, 0, 6, 0, 1), 10, kCuda) ==
        "host-bound 30%: raise --batch-size (compute 60%, update 10%)");
  CHECK(verdict_on(phases(0, 0, 6, 0, 1), 10) == "compute-bound 70% (other 30%)");
  CHECK(verdict_on(phases(0, 0, 0, 0, 0), 0) == "compute-bound 0%");
}

TEST_CASE("a verdict fits a terminal of 80 columns") {
  for (const double wait : {0.0, 1.0, 2.0})
    for (const double reduce : {0.0, 1.0, 2.0})
      CHECK(verdict_on(phases(wait, 0.9, 3, reduce, 2), 10.0, kCuda).size() <= 78);
}

}  // namespace heddle::train_cifar
