// Loss scaling over several replicas, and the ways to exchange, on logical replicas of the CPU.
#include <limits>

#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/optim/sgd.h"
#include "heddle/parallel/shard_plan.h"
#include "heddle/tests/parallel/small_training.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle::test {
namespace {

std::unique_ptr<Optimizer> make_sgd(const Module& replica) {
  return std::make_unique<Sgd>(replica.parameters(), SgdOptions{.lr = 0.5, .momentum = 0.9});
}

Tensor inputs(int64_t n, int step) {
  return randn({n, 6}, Rng(2, RngPurpose::kUser, static_cast<uint64_t>(step)));
}

/// A few float16 steps at a scale that is a power of two.
Content train_scaled(const std::vector<Device>& devices, double init_scale) {
  const Autocast half(DType::kFloat16);
  manual_seed(1);
  TwoLayers model;
  DataParallel parallel(model, devices, {.shards = 4});
  ReplicatedOptimizer sgd(parallel, make_sgd);
  GradScaler scaler({.init_scale = init_scale});
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    parallel.forward_backward(inputs(10, step), some_labels(10), mean_loss, &scaler);
    REQUIRE(sgd.step(scaler, 1.0));
    scaler.update();
  }
  parallel.check_replicas();
  return content(model.state());
}

}  // namespace

TEST_CASE("DataParallel: scaled float16 steps have the same bits on any number of replicas",
          "[parallel]") {
  const Content one = train_scaled(on_cpu(1), 256.0);
  CHECK(train_scaled(on_cpu(2), 256.0) == one);
  CHECK(train_scaled(on_cpu(4), 256.0) == one);
}

// A scale of 2^k moves exponents alone, as long as nothing under- or overflows.
TEST_CASE("DataParallel: the scale of the loss leaves no trace in float32", "[parallel]") {
  const ProviderScope native(Provider::kNative);
  const auto train = [](double scale) {
    manual_seed(1);
    TwoLayers model;
    DataParallel parallel(model, on_cpu(3));
    ReplicatedOptimizer sgd(parallel, make_sgd);
    GradScaler scaler({.init_scale = scale});
    const auto result =
        parallel.forward_backward(inputs(10, 0), some_labels(10), mean_loss, &scaler);
    REQUIRE(sgd.step(scaler, 0.25));
    CHECK(result.loss < 10.0);
    return content(model.state());
  };
  CHECK(train(1024.0) == train(1.0));
}

TEST_CASE("NU-5: where one replica overflows, all skip the step and halve the scale",
          "[parallel]") {
  manual_seed(1);
  TwoLayers model;
  DataParallel parallel(model, on_cpu(3));
  ReplicatedOptimizer sgd(parallel, make_sgd);
  GradScaler scaler({.init_scale = 8.0});
  const Content before = content(model.state());

  Tensor x = inputs(9, 0);
  x.data<float>()[8 * 6] = std::numeric_limits<float>::infinity();  // a row of the last replica
  parallel.forward_backward(x, some_labels(9), mean_loss, &scaler);
  CHECK_FALSE(sgd.step(scaler));
  scaler.update();
  CHECK(scaler.get_scale() == 4.0);
  CHECK(content(model.state()) == before);
  parallel.check_replicas();
  for (const auto& [name, tensor] : sgd.state())
    for (const float value : to(tensor, DType::kFloat32).to_vector<float>()) CHECK(value == 0.0F);

  sgd.zero_grad();
  parallel.forward_backward(inputs(9, 1), some_labels(9), mean_loss, &scaler);
  CHECK(sgd.step(scaler));
  CHECK(content(model.state()) != before);
  parallel.check_replicas();
}

TEST_CASE("DataParallel: every exchange sums, direct and gather with the same bits", "[parallel]") {
  const auto by = [](ExchangeKind kind) {
    DataParallelOptions options;
    options.exchange = kind;
    return train_on<TinyCnn>(on_cpu(3), options);
  };
  const Content direct = by(ExchangeKind::kDirect), ring = by(ExchangeKind::kRing);
  CHECK(by(ExchangeKind::kGather) == direct);
  check_close(ring, direct, 1e-4);

  TinyCnn model;
  CHECK(keeps_tree_order(DataParallel(model, on_cpu(3)).exchange()));
}

}  // namespace heddle::test
