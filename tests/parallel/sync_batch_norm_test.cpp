// DataParallel with synchronised batch-norms, on logical replicas of the CPU.
#include <atomic>

#include "heddle/nn/modules/batch_norm2d.h"
#include "heddle/nn/modules/conv2d.h"
#include "heddle/nn/modules/dropout.h"
#include "heddle/tests/parallel/small_training.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle::test {
namespace {

DataParallelOptions synchronised(int64_t shards = 0) {
  return {.shards = shards, .sync_batch_norm = true, .bucket_bytes = 1024};
}

}  // namespace

TEST_CASE("DP-3: synchronised, statistics are the whole batch's on all replicas",
          "[parallel][sync]") {
  OneNorm model;
  DataParallel parallel(model, on_cpu(3), synchronised(5));
  const Tensor x = Tensor::from<float>({1, 3, 5, 7}, {4, 1, 1, 1});
  {
    const NoGradGuard no_grad;
    parallel(x);
  }
  for (int i = 0; i < 3; ++i) {
    const auto& bn = dynamic_cast<OneNorm&>(parallel.replica(i)).bn;
    CHECK(bn.running_mean.item() == Approx(0.4).margin(1e-6));
    CHECK(bn.running_var.item() == Approx(1.566667).margin(1e-6));
    CHECK(bn.num_batches_tracked.item() == 1);
  }
  CHECK_THROWS_WITH(parallel(narrow(x, 0, 0, 1)), ContainsSubstring("needs at least two"));
  parallel(narrow(x, 0, 0, 2));  // a value each on two of the shards, and a replica is idle
  parallel.check_replicas();
  CHECK(model.bn.num_batches_tracked.item() == 2);
  parallel.eval();
  CHECK(parallel(x).to_vector<float>() == model(x).to_vector<float>());
}

TEST_CASE("DataParallel, synchronised: a replica that is first and idle follows",
          "[parallel][sync]") {
  for (const bool sync : {false, true}) {
    OneNorm model;
    DataParallel parallel(model, on_cpu(3), {.split = {0, 1, 1}, .sync_batch_norm = sync});
    const NoGradGuard no_grad;
    parallel(Tensor::from<float>({1, 3, 5, 7}, {2, 1, 2, 1}));
    parallel.check_replicas();
    CHECK(model.bn.num_batches_tracked.item() == 1);
    CHECK(model.bn.running_mean.item() == Approx(0.4).margin(1e-6));
  }
}

TEST_CASE("DataParallel, synchronised: the same bits on 1, 2, 4 and 8 replicas",
          "[parallel][sync]") {
  const ProviderScope native(Provider::kNative);
  const int64_t batch = GENERATE(19, 16, 5, 3);
  const Content whole = train_on<TinyCnn>(on_cpu(1), {}, batch);
  const Content one = train_on<TinyCnn>(on_cpu(1), synchronised(8), batch);
  check_close(one, whole, 1e-3);
  for (const size_t n : {2U, 4U, 8U})
    CHECK(train_on<TinyCnn>(on_cpu(n), synchronised(8), batch) == one);
  for (const size_t n : {3U, 5U, 6U, 7U}) {
    const Content odd = train_on<TinyCnn>(on_cpu(n), synchronised(8), batch);
    check_close(odd, one, 1e-3);
    CHECK(train_on<TinyCnn>(on_cpu(n), synchronised(8), batch) == odd);
  }
}

TEST_CASE("DataParallel, synchronised: one shard is the plain batch-norm, bit for bit",
          "[parallel][sync]") {
  const ProviderScope native(Provider::kNative);
  CHECK(train_on<TinyCnn>(on_cpu(1), synchronised()) == train_on<TinyCnn>(on_cpu(1), {}));
}

namespace {

/// Two batch-norms, and dropout that is used twice between them.
class Norms : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    const Tensor hidden = dropout(bn1(dropout(fc1(reshape(x, {x.size(0), 6, 1, 1})))));
    return reshape(fc2(bn2(hidden)), {x.size(0), 10});
  }
  Conv2d& fc1 = add("fc1", Conv2d(6, 5, 1));
  BatchNorm2d& bn1 = add("bn1", BatchNorm2d(5, {.fuse_relu = true}));
  Dropout& dropout = add("dropout", Dropout(0.3));
  BatchNorm2d& bn2 = add("bn2", BatchNorm2d(5));
  Conv2d& fc2 = add("fc2", Conv2d(5, 10, 1));
};

}  // namespace

TEST_CASE("DataParallel, synchronised: output, loss and gradients are the whole batch's",
          "[parallel][sync]") {
  const ProviderScope native(Provider::kNative);
  manual_seed(3);
  Norms alone, model;
  model.copy_from(alone);
  DataParallel parallel(model, on_cpu(2), synchronised(5));
  for (const int64_t n : {9, 4, 2}) {
    for (const bool whole_step : {false, true}) {
      INFO(n << " rows");
      Tensor x = randn({n, 6}, Rng(2, RngPurpose::kUser)), x_alone = clone(x);
      if (!whole_step) x.set_requires_grad();
      x_alone.set_requires_grad();
      alone.zero_grad();
      parallel.zero_grad();
      alone.set_step(n);
      parallel.set_step(n);
      const Tensor expected = alone(x_alone);
      cross_entropy(expected, some_labels(n)).backward();
      Tensor output;
      if (whole_step) {
        output = parallel.forward_backward(x, some_labels(n), mean_loss).output;
      } else {
        output = parallel(x);
        cross_entropy(output, some_labels(n)).backward();
        check_close({x.grad().to_vector<float>()}, {x_alone.grad().to_vector<float>()}, 1e-5);
      }
      check_close({output.to_vector<float>()}, {expected.to_vector<float>()}, 1e-4);
      for (int i = 0; i < parallel.size(); ++i)
        check_close(gradients(parallel.replica(i)), gradients(alone), 1e-5);
      parallel.check_replicas();
      check_close(content(model.state()), content(alone.state()), 1e-5);
    }
  }
}

namespace {

/// Fails between its two batch-norms, in one direction, on the rows that begin with a large number.
class Touchy : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    const Tensor hidden = bn1(x);
    HEDDLE_CHECK(backward_fails || x.at({0, 0, 0, 0}) < 100, "touchy: {} is too much",
                 x.at({0, 0, 0, 0}));
    Tensor y = bn2(hidden);
    if (x.at({0, 0, 0, 0}) >= 100) {
      Tensor passed = y.detach();
      record("touchy", passed, {y},
             [](const Tensor&) -> Gradients { fail("touchy: backward is too much"); });
      y = passed;
    }
    return reshape(fc(bn3(y)), {x.size(0), 10});
  }
  BatchNorm2d& bn1 = add("bn1", BatchNorm2d(2));
  BatchNorm2d& bn2 = add("bn2", BatchNorm2d(2));
  BatchNorm2d& bn3 = add("bn3", BatchNorm2d(2));
  Conv2d& fc = add("fc", Conv2d(2, 10, 1));
  static inline std::atomic<bool> backward_fails = false;
};

}  // namespace

TEST_CASE("DataParallel, synchronised: one replica fails between two meetings, and all end",
          "[parallel][sync]") {
  Touchy model;
  const int64_t shards = GENERATE(3, 6, 7);
  DataParallel parallel(model, on_cpu(3), synchronised(shards));
  const Tensor good = randn({7, 2, 1, 1}, Rng(2, RngPurpose::kUser));
  for (int round = 0; round < 6; ++round) {
    Touchy::backward_fails = round % 2 == 1;
    Tensor bad = clone(good);
    {
      const NoGradGuard no_grad;
      Tensor last = narrow(bad, 0, shards < 7 ? 5 : 6, shards < 7 ? 2 : 1);  // from a shard's first
      fill_(last, 200.0);
    }
    const char* said = Touchy::backward_fails ? "replica 2 on the CPU: touchy: backward"
                                              : "replica 2 on the CPU: touchy: 200";
    CHECK_THROWS_WITH(parallel.forward_backward(bad, some_labels(7), mean_loss),
                      ContainsSubstring(said));
    parallel.zero_grad();
    parallel.forward_backward(good, some_labels(7), mean_loss);
    CHECK(gradients(parallel.replica(2)) == gradients(model));
  }
  Touchy::backward_fails = false;
}

namespace {

/// Has a second batch-norm, or one over more channels, where rows begin with a large number.
class Fickle : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    const double first = x.at({0, 0, 0, 0});
    const Tensor y = first >= 200 ? narrow(bn4(wide(x)), 1, 0, 2) : bn2(x);
    return reshape(fc(first >= 100 && first < 200 ? bn3(y) : y), {x.size(0), 10});
  }
  BatchNorm2d& bn2 = add("bn2", BatchNorm2d(2));
  BatchNorm2d& bn3 = add("bn3", BatchNorm2d(2));
  Conv2d& wide = add("wide", Conv2d(2, 4, 1));
  BatchNorm2d& bn4 = add("bn4", BatchNorm2d(4));
  Conv2d& fc = add("fc", Conv2d(2, 10, 1));
};

/// Keeps a mean of its own.
class Averaging : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    const NoGradGuard no_grad;
    if (is_training()) add_(seen, 1.0);
    return bn(x);
  }
  BatchNorm2d& bn = add("bn", BatchNorm2d(1));
  Tensor& seen = add_buffer("seen", zeros({1}));
};

}  // namespace

TEST_CASE("DataParallel, synchronised: what it cannot do is refused by name", "[parallel][sync]") {
  Fickle fickle;
  for (const int64_t shards : {2, 4}) {
    DataParallel parallel(fickle, on_cpu(2), synchronised(shards));
    for (const float first : {150.0F, 250.0F}) {
      Tensor x = ones({4, 2, 1, 1});
      {
        const NoGradGuard no_grad;
        Tensor row = narrow(x, 0, 2, 1);
        fill_(row, first);
      }
      CHECK_THROWS_WITH(parallel(x), ContainsSubstring("expected the same layers for all"));
    }
  }
  Averaging averaging;
  DataParallel moves(averaging, on_cpu(2), synchronised());
  CHECK_THROWS_WITH(moves(randn({4, 1, 2, 2}, Rng(2, RngPurpose::kUser))),
                    ContainsSubstring("a buffer that is no BatchNorm2d's"));
  OneNorm model;
  CHECK_THROWS_WITH(DataParallel(model, on_cpu(1), synchronised(257)),
                    ContainsSubstring("257 shards, expected at most 256"));
}

}  // namespace heddle::test
