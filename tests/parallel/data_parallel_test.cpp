// Logical replicas on the CPU. DP-1, DP-3 and DP-4 are mistakes that other frameworks made.
#include "heddle/nn/modules/batch_norm2d.h"
#include "heddle/nn/modules/linear.h"
#include "heddle/nn/optim/sgd.h"
#include "heddle/parallel/shard_plan.h"
#include "heddle/tests/parallel/small_training.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle::test {
TEST_CASE("a plan of fewer samples than shards leaves the last devices idle", "[parallel]") {
  const ShardPlan plan(3, 8, 2);
  CHECK(plan.devices == std::vector<Range>{{0, 3}, {4, 0}});
}

TEST_CASE("ShardPlan in proportion: cuts rounded down, no shard where nothing is left",
          "[parallel]") {
  const ShardPlan exact(7, {4, 0, 1, 2});
  CHECK(exact.shards == std::vector<Range>{{0, 4}, {4, 1}, {5, 2}});
  CHECK(exact.devices == std::vector<Range>{{0, 1}, {1, 0}, {1, 1}, {2, 1}});
  const ShardPlan few(2, {3, 1, 2});
  CHECK(few.shards == std::vector<Range>{{0, 1}, {1, 1}});
  CHECK(few.devices == std::vector<Range>{{0, 1}, {1, 0}, {1, 1}});
  CHECK_THROWS_WITH(ShardPlan(2, {1, -1}), ContainsSubstring("a split with -1"));
  CHECK_THROWS_WITH(ShardPlan(2, {0, 0}), ContainsSubstring("adds up to 0"));
}

TEST_CASE("DataParallel: a split that is given weighs replicas by their samples", "[parallel]") {
  const ProviderScope native(Provider::kNative);
  manual_seed(1);
  TwoLayers alone, model;
  model.copy_from(alone);
  DataParallel parallel(model, on_cpu(4), {.split = {5, 1, 0, 3}});
  CHECK(parallel.rows_by_device(9) == std::vector<int64_t>{5, 1, 0, 3});
  for (const int64_t n : {9, 4, 1}) {
    const Tensor x = randn({n, 6}, Rng(2, RngPurpose::kUser)), labels = some_labels(n);
    alone.zero_grad();
    cross_entropy(alone(x), labels).backward();
    parallel.zero_grad();
    const auto result = parallel.forward_backward(x, labels, mean_loss);
    CHECK(result.output.size(0) == n);
    for (int i = 0; i < parallel.size(); ++i)
      check_close(gradients(parallel.replica(i)), gradients(alone), 1e-5);
  }
  CHECK_THROWS_WITH(DataParallel(model, on_cpu(3), {.split = {1, 1}}),
                    ContainsSubstring("a split of 2 parts, expected 3"));
  CHECK_THROWS_WITH(DataParallel(model, on_cpu(2), {.shards = 4, .split = {1, 1}}),
                    ContainsSubstring("a split with 4 shards"));
}

TEST_CASE("DataParallel counts what its exchanges carry", "[parallel]") {
  manual_seed(1);
  TwoLayers model;
  DataParallel parallel(model, on_cpu(4), {.exchange = ExchangeKind::kDirect});
  const Tensor x = randn({8, 6}, Rng(2, RngPurpose::kUser)), labels = some_labels(8);
  for (int step = 0; step < 2; ++step) (void)parallel.forward_backward(x, labels, mean_loss);
  const ExchangeTraffic traffic = parallel.traffic();
  CHECK(traffic.calls == 2);
  int64_t bytes = 0;
  for (const auto& row : traffic.bytes)
    for (const int64_t n : row) bytes += n;
  CHECK(traffic.elements >= 2 * model.parameter_count());
  CHECK(bytes == 4 * static_cast<int64_t>(least_bytes(4, traffic.elements)));
}

TEST_CASE("DP-1: batches that replicas do not divide, or that leave some idle", "[parallel]") {
  const ProviderScope native(Provider::kNative);
  manual_seed(1);
  TwoLayers alone, model;
  model.copy_from(alone);
  DataParallel parallel(model, on_cpu(4));
  for (const int64_t n : {9, 5, 3, 1}) {
    const Tensor x = randn({n, 6}, Rng(2, RngPurpose::kUser)), labels = some_labels(n);
    alone.zero_grad();
    const Tensor expected = alone(x), expected_loss = cross_entropy(expected, labels);
    expected_loss.backward();

    parallel.zero_grad();
    const Tensor output = parallel(x), loss = cross_entropy(output, labels);
    loss.backward();
    check_close({output.to_vector<float>()}, {expected.to_vector<float>()}, 1e-5);
    CHECK(loss.item() == Approx(expected_loss.item()).margin(1e-5));
    for (int i = 0; i < parallel.size(); ++i)
      check_close(gradients(parallel.replica(i)), gradients(alone), 1e-5);

    parallel.zero_grad();
    const auto result = parallel.forward_backward(x, labels, mean_loss);
    CHECK(result.loss == Approx(expected_loss.item()).margin(1e-5));
    check_close({result.output.to_vector<float>()}, {expected.to_vector<float>()}, 1e-5);
    for (int i = 0; i < parallel.size(); ++i)
      check_close(gradients(parallel.replica(i)), gradients(alone), 1e-5);
  }
}

TEST_CASE("DataParallel: parts of a batch that lie on their devices give the batch's bits",
          "[parallel]") {
  for (const int64_t n : {1, 3, 9}) {
    manual_seed(1);
    TwoLayers model;
    DataParallel parallel(model, on_cpu(3), {.shards = 4});
    const Tensor x = randn({n, 6}, Rng(2, RngPurpose::kUser)), labels = some_labels(n);
    parallel.zero_grad();
    const auto whole = parallel.forward_backward(x, labels, mean_loss);
    const auto expected = gradients(parallel.replica(2));

    std::vector<BatchPart> parts;
    int64_t row = 0;
    for (const int64_t rows : parallel.rows_by_device(n)) {
      parts.push_back({.first_row = row});
      if (rows > 0) parts.back().images = narrow(x, 0, row, rows);
      if (rows > 0) parts.back().labels = narrow(labels, 0, row, rows);
      row += rows;
    }
    REQUIRE(row == n);
    parallel.zero_grad();
    const auto result = parallel.forward_backward(parts, mean_loss);
    CHECK(result.loss == whole.loss);
    CHECK(result.output.to_vector<float>() == whole.output.to_vector<float>());
    CHECK(gradients(parallel.replica(2)) == expected);

    parts[1].first_row += 1;
    if (n > 3)
      CHECK_THROWS_WITH(parallel.forward_backward(parts, mean_loss),
                        ContainsSubstring("DataParallel: device 1 has rows"));
    parts.pop_back();
    CHECK_THROWS_WITH(parallel.forward_backward(parts, mean_loss),
                      ContainsSubstring("a part for each of 3 devices"));
  }
}

TEST_CASE("DataParallel: the gradient of the input, and gradients that add up", "[parallel]") {
  TwoLayers alone, model;
  model.copy_from(alone);
  DataParallel parallel(model, on_cpu(2));
  Tensor x = randn({5, 6}, Rng(2, RngPurpose::kUser)), x_alone = clone(x);
  x.set_requires_grad();
  x_alone.set_requires_grad();
  for (int pass = 0; pass < 2; ++pass) {
    cross_entropy(alone(x_alone), some_labels(5)).backward();
    cross_entropy(parallel(x), some_labels(5)).backward();
  }
  check_close({x.grad().to_vector<float>()}, {x_alone.grad().to_vector<float>()}, 1e-6);
  for (int i = 0; i < 2; ++i) check_close(gradients(parallel.replica(i)), gradients(alone), 1e-6);
}

TEST_CASE("DP-3: batch-norm's statistics of all replicas reach all replicas", "[parallel]") {
  OneNorm model;
  DataParallel parallel(model, on_cpu(2));
  const Tensor x = Tensor::from<float>({1, 3, 5, 7}, {4, 1, 1, 1});
  const NoGradGuard no_grad;
  parallel(x);
  for (int i = 0; i < 2; ++i) {
    const auto& bn = dynamic_cast<OneNorm&>(parallel.replica(i)).bn;
    CHECK(bn.running_mean.item() == Approx(0.4).margin(1e-6));
    CHECK(bn.running_var.item() == Approx(1.1).margin(1e-6));
    CHECK(bn.num_batches_tracked.item() == 1);
  }
  parallel(narrow(x, 0, 0, 2).as_strided({1, 1, 2, 1}, {2, 2, 1, 1}, 0));  // replica 1 is idle
  parallel.check_replicas();
  CHECK(model.bn.num_batches_tracked.item() == 2);
  parallel.eval();
  CHECK(parallel(x).to_vector<float>() == model(x).to_vector<float>());
}

namespace {

class TwoLogits : public Module {
 public:
  Tensor forward(const Tensor& x) override { return matmul(x, w); }
  Tensor& w = add_parameter("w", zeros({1, 2}));
};

}  // namespace

TEST_CASE("DP-4: replicas are linked and never stale", "[parallel]") {
  const Tensor x = ones({2, 1}), labels = Tensor::from<int64_t>({1, 1}, {2});
  TwoLogits model;
  DataParallel parallel(model, on_cpu(2));
  const bool replicated = GENERATE(true, false);
  ReplicatedOptimizer all(parallel, [](const Module& replica) {
    return std::make_unique<Sgd>(replica.parameters(), SgdOptions{.lr = 1.0});
  });
  Sgd first(parallel.parameters(), {.lr = 1.0});  // as in PyTorch: the others follow by themselves
  const auto step = [&] {
    parallel.zero_grad();
    const Tensor loss = cross_entropy(parallel(x), labels);
    loss.backward();
    replicated ? all.step() : first.step();
    return loss.item();
  };
  CHECK(step() == Approx(0.693147).margin(1e-5));
  CHECK(model.w.to_vector<float>() == std::vector<float>{-0.5F, 0.5F});
  CHECK(step() == Approx(0.313262).margin(1e-5));
  model.load_state({{"w", zeros({1, 2})}});
  CHECK(step() == Approx(0.693147).margin(1e-5));
}

TEST_CASE("DataParallel: the same shards give the same bits on 1, 2, 4 and 8 replicas",
          "[parallel]") {
  const ProviderScope native(Provider::kNative);
  const int64_t batch = GENERATE(19, 16, 5);
  const DataParallelOptions options{.shards = 8, .bucket_bytes = 1024};
  const Content one = train_on<TinyCnn>(on_cpu(1), options, batch);
  for (const size_t n : {2U, 4U, 8U}) CHECK(train_on<TinyCnn>(on_cpu(n), options, batch) == one);
  for (const size_t n : {3U, 5U, 6U, 7U}) {
    const Content odd = train_on<TinyCnn>(on_cpu(n), options, batch);
    check_close(odd, one, 2e-3);
    CHECK(train_on<TinyCnn>(on_cpu(n), options, batch) == odd);
  }
}

namespace {

/// Fails on the rows that begin with a large number.
class Touchy : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    HEDDLE_CHECK(x.at({0, 0}) < 100, "touchy: {} is too much", x.at({0, 0}));
    return fc(x);
  }
  Linear& fc = add("fc", Linear(2, 10));
};

}  // namespace

TEST_CASE("DataParallel: one replica fails, all end, and the next step goes on", "[parallel]") {
  Touchy model;
  DataParallel parallel(model, on_cpu(3), {.bucket_bytes = 16});
  const Tensor good = ones({3, 2});
  const Tensor bad = Tensor::from<float>({1, 1, 1, 1, 200, 1}, {3, 2});
  for (int round = 0; round < 3; ++round) {
    CHECK_THROWS_WITH(parallel.forward_backward(bad, some_labels(3), mean_loss),
                      ContainsSubstring("replica 2 on the CPU: touchy: 200 is too much"));
    CHECK_THROWS_WITH(parallel(bad), ContainsSubstring("replica 2 on the CPU"));
    parallel.zero_grad();
    parallel.forward_backward(good, some_labels(3), mean_loss);
    CHECK(gradients(parallel.replica(2)) == gradients(model));
  }
}

TEST_CASE("DataParallel: a replica that went astray is found", "[parallel]") {
  TwoLayers model;
  DataParallel parallel(model, on_cpu(3));
  parallel.check_replicas();
  {
    const NoGradGuard no_grad;
    Tensor bias = parallel.replica(2).parameters()[1];
    add_(bias, 1e-3);
  }
  CHECK_THROWS_WITH(parallel.check_replicas(), ContainsSubstring("fc1.bias of replica 2 on cpu"));
  parallel.replicate();
  parallel.check_replicas();
}

TEST_CASE("DataParallel: what it cannot do is refused by name", "[parallel]") {
  TwoLayers model;
  CHECK_THROWS_WITH(DataParallel(model, {}), ContainsSubstring("devices"));
  CHECK_THROWS_WITH(DataParallel(
                        model, [] { return std::make_unique<Touchy>(); }, on_cpu(2)),
                    ContainsSubstring("copy_from"));
  DataParallel parallel(model, on_cpu(2));
  CHECK_THROWS_WITH(parallel(zeros({0, 6})), ContainsSubstring("at least one row"));
  const Tensor x = ones({2, 6});
  CHECK_THROWS_WITH(parallel.forward_backward(x, some_labels(3), mean_loss),
                    ContainsSubstring("labels are (3)"));
  CHECK_THROWS_WITH(parallel.forward_backward(x, some_labels(2),
                                              [](const Tensor& y, const Tensor&) { return y; }),
                    ContainsSubstring("expected one number"));
  model.to(DType::kFloat64);
  CHECK_THROWS_WITH(DataParallel(model, on_cpu(1)), ContainsSubstring("expected float32"));
}

}  // namespace heddle::test
