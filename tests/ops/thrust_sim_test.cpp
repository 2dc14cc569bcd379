// Thrust's algorithms under cudasim: in stream order, and checked as kernels are.
#ifdef CUDASIM_WITH_CHECKS
#include <cudasim/control.h>
#include <cudasim/findings.h>
#include <cudasim/order.h>

#include "heddle/core/event.h"
#include "heddle/kernels/count_equal.h"
#include "heddle/kernels/permutation.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/device.h"

namespace heddle::testing {
namespace {

/// `source` (int64) counted against `other` on a stream of its own, behind `ready` where asked.
void count_elsewhere(Tensor& source, const Tensor& other, const Tensor& count, const Stream& stream,
                     bool wait) {
  fill_(source, 3.0);
  if (wait) StreamRef(stream).wait(current_stream(test_device()));
  cuda::count_equal({count.data<int64_t>(), source.data<int64_t>(), other.data<int64_t>(), 600},
                    stream);
  current_stream(test_device()).wait(stream);
}

struct Operands {
  Tensor source = zeros({600}, DType::kInt64, test_device());
  Tensor other = full({600}, 3.0, DType::kInt64, test_device());
  Tensor count = zeros({}, DType::kInt64, test_device());
  Stream stream{test_device()};
};

}  // namespace

TEST_CASE("thrust waits for what its stream waits for, whatever the schedule",
          "[device][count_equal]") {
  for (const auto schedule :
       {cudasim::Schedule::kEager, cudasim::Schedule::kLatest, cudasim::Schedule::kRandom}) {
    cudasim::set_schedule(schedule, 5);
    Operands x;
    current_stream(test_device()).synchronize();
    count_elsewhere(x.source, x.other, x.count, x.stream, true);
    CHECK(x.count.to_vector<int64_t>() == std::vector<int64_t>{600});
  }
  cudasim::set_schedule(cudasim::Schedule::kEager);
}

TEST_CASE("thrust without a wait for its input is a finding", "[device][count_equal]") {
  const cudasim::ExpectOrderFindings expected;
  Operands x;
  current_stream(test_device()).synchronize();
  count_elsewhere(x.source, x.other, x.count, x.stream, false);
  current_stream(test_device()).synchronize();
  REQUIRE_FALSE(expected.found().empty());
  CHECK(expected.found().front().fault == cudasim::OrderFault::kMissingWait);
  CHECK(expected.found().front().second.find("thrust_kernel") != std::string::npos);
}

TEST_CASE("thrust's accesses are checked", "[device][randperm]") {
  const Tensor unwritten =
      Tensor::empty({8}, DType::kInt64, MemoryFormat::kContiguous, test_device());
  const Tensor count = zeros({}, DType::kInt64, test_device());
  const cudasim::ExpectFindings expected;
  cuda::count_equal(
      {count.data<int64_t>(), unwritten.data<int64_t>(), unwritten.data<int64_t>(), 8},
      current_stream(test_device()));
  current_stream(test_device()).synchronize();
  REQUIRE_FALSE(expected.found().empty());
  CHECK(expected.found().front().kind == cudasim::FindingKind::kUninitialisedRead);
}

}  // namespace heddle::testing

#endif  // CUDASIM_WITH_CHECKS
