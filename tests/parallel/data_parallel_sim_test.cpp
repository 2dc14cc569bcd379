// DataParallel on virtual devices, whenever the queued work runs, with and without peer access, its
// steps called or replayed as a graph.
#include <cudasim/order.h>

#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "heddle/nn/models/resnet18.h"
#include "heddle/nn/optim/sgd.h"
#include "heddle/tests/parallel/replicated_training.h"
#include "heddle/tests/parallel/virtual_devices.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle::test {
namespace {

/// SimpleCnn's layers with few channels, and dropout: 2,350 parameters.
class SmallCnn : public Module {
 public:
  Tensor forward(const Tensor& x) override { return fc2(dropout(fc1(conv2(conv1(x))))); }
  Conv2d& conv1 = add("conv1", Conv2d(3, 4, 3, {.padding = 1, .fuse_relu = true}));
  Conv2d& conv2 = add("conv2", Conv2d(4, 4, 3, {.padding = 1, .fuse_relu = true}));
  Linear& fc1 = add("fc1", Linear(ImageSize{4, 8, 8}, 7));
  Dropout& dropout = add("dropout", Dropout(0.2));
  Linear& fc2 = add("fc2", Linear(7, 10));
};

/// ResNet-18's layers with few channels, and two blocks: 1,500 parameters.
class SmallResNet : public Module {
 public:
  Tensor forward(const Tensor& x) override { return fc(pool(block2(block1(bn1(conv1(x)))))); }
  Conv2d& conv1 = add("conv1", Conv2d(3, 4, 3, {.padding = 1, .bias = false}));
  BatchNorm2d& bn1 = add("bn1", BatchNorm2d(4, {.fuse_relu = true}));
  BasicBlock& block1 = add("block1", BasicBlock(4, 4, 1));
  BasicBlock& block2 = add("block2", BasicBlock(4, 8, 2));
  AdaptiveAvgPool2d& pool = add("pool", AdaptiveAvgPool2d());
  Linear& fc = add("fc", Linear(ImageSize{8, 1, 1}, 10));
};

enum class Net { kCnn, kResNet, kSyncResNet };  // the last: its batch-norms synchronised

std::unique_ptr<Module> make_net(Net net) {
  if (net == Net::kCnn) return std::make_unique<SmallCnn>();
  return std::make_unique<SmallResNet>();
}

/// A model on virtual devices, trained from its first state as often as asked: cudasim's check of
/// order remembers every stream there was, so that one for each run would fill the memory.
class Rig {
 public:
  Rig(Net net, int n_devices, Peers peers)
      : net_(net),
        scope_(cudasim::Schedule::kEager, 1, peers),
        model_((manual_seed(5), make_net(net))),
        parallel_(*model_, [net] { return make_net(net); }, devices_of(n_devices),
                  {.shards = 8, .sync_batch_norm = net == Net::kSyncResNet, .bucket_bytes = 1024}) {
    for (const auto& [name, tensor] : model_->state()) first_.emplace_back(name, clone(tensor));
  }

  /// All tensors of the model and of Adam after a called step, one that is captured (skipped in
  /// float16), one of other shapes, and one that is replayed. No graph holds shards that wait for
  /// each other: synchronised, all steps are called.
  Content train(Precision precision, bool by_graph, cudasim::Schedule schedule, uint64_t seed) {
    by_graph = by_graph && net_ != Net::kSyncResNet;
    cudasim::set_schedule(schedule, seed);
    model_->load_state(first_);
    parallel_.replicate();
    ReplicatedTraining training(parallel_, precision, by_graph);
    training.step({});
    const bool taken = training.step({.lr_scale = 0.5, .loss_scale = kOverflows});
    CHECK(taken == (precision != Precision::kFloat16));
    training.step({.rows = 5, .lr_scale = 0.25, .loss_scale = 512.0});
    CHECK(training.step({.lr_scale = 2.0, .loss_scale = 1024.0}));
    CHECK(training.replays() == (by_graph ? 2 : 0));
    parallel_.check_replicas();
    return training.content_of_all();
  }

 private:
  Net net_;
  MachineScope scope_;
  std::unique_ptr<Module> model_;
  DataParallel parallel_;
  NamedTensors first_;
};

/// The bits of eager runs of calls on one device, where 2, 4 and 8 must have them too, and of eager
/// runs on other numbers, which must be near.
class References {
 public:
  const Content& of(Net net, int n_devices, Precision precision) {
    const bool tree = n_devices == 1 || n_devices == 2 || n_devices == 4 || n_devices == 8;
    const auto key = std::tuple(net, tree ? 1 : n_devices, precision);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    Rig rig(net, tree ? 1 : n_devices, Peers::kAll);
    return known_.emplace(key, rig.train(precision, false, cudasim::Schedule::kEager, 1))
        .first->second;
  }

 private:
  std::map<std::tuple<Net, int, Precision>, Content> known_;
};

double largest_difference(const Content& a, const Content& b) {
  double largest = 0.0;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < a[i].size(); ++k)
      largest = std::max(largest, static_cast<double>(std::abs(a[i][k] - b[i][k])));
  return largest;
}

void check_eager_and_latest(const std::vector<Net>& nets) {
  const ProviderScope native(Provider::kNative);
  References references;
  for (int n = 1; n <= 8; ++n) {
    for (const Net net : nets) {
      INFO(n << " devices, net " << static_cast<int>(net));
      Rig rig(net, n, n % 2 == 0 ? Peers::kAll : Peers::kNone);
      const Content& expected = references.of(net, n, Precision::kFloat32);
      const bool by_graph = (n + static_cast<int>(net)) % 2 == 0;
      CHECK(rig.train(Precision::kFloat32, by_graph, cudasim::Schedule::kEager, 1) == expected);
      CHECK(rig.train(Precision::kFloat32, !by_graph, cudasim::Schedule::kLatest, 1) == expected);
      CHECK(largest_difference(expected, references.of(net, 1, Precision::kFloat32)) < 2e-3);
    }
  }
  CHECK(cudasim::order_findings().empty());
}

}  // namespace

TEST_CASE("DataParallel on virtual devices, eagerly and as late as may be", "[device][sim]") {
  check_eager_and_latest({Net::kCnn, Net::kResNet});
}

TEST_CASE("DataParallel, synchronised, eagerly and as late as may be", "[device][sim][sync]") {
  check_eager_and_latest({Net::kSyncResNet});
}

namespace {

struct Combination {
  Net net;
  int n_devices;
  Peers peers;
  Precision precision;
  bool by_graph;

  std::array<int, 5> choices() const {
    return {static_cast<int>(net), n_devices, static_cast<int>(peers), static_cast<int>(precision),
            by_graph ? 1 : 0};
  }
};

/// Of 24 in a row, any two choices of different kinds meet.
Combination pairwise(int i) {
  const int row = i / 8, column = i % 8;
  return {static_cast<Net>((row + column) % 3), column + 1, static_cast<Peers>(row % 3),
          static_cast<Precision>((row + 2 * column) % 3), (row + column / 2) % 2 == 1};
}

/// All 432 in a row: 48 for each net and precision, those of the same devices beside each other.
Combination combination(int i) {
  return {static_cast<Net>(i / 48 % 3), i / 2 % 8 + 1, static_cast<Peers>(i / 16 % 3),
          static_cast<Precision>(i / 144), i % 2 == 1};
}

/// Trains combinations `first` and following in random orders, combination i by seed i + 1.
template <class Choose>
void check_random_orders(Choose choose, int first, int n_combinations) {
  const ProviderScope native(Provider::kNative);
  References references;
  std::optional<Rig> rig;
  std::optional<std::tuple<Net, int, Peers>> machine;
  for (int i = first; i < first + n_combinations; ++i) {
    const Combination c = choose(i);
    INFO(c.n_devices << " devices, net " << static_cast<int>(c.net) << ", peers "
                     << static_cast<int>(c.peers) << ", precision " << static_cast<int>(c.precision)
                     << (c.by_graph ? ", by graph" : "") << ", seed " << i + 1);
    const Content& expected = references.of(c.net, c.n_devices, c.precision);
    const auto wanted = std::tuple(c.net, c.n_devices, c.peers);
    if (machine != wanted) {
      rig.reset();
      rig.emplace(c.net, c.n_devices, c.peers);
      machine = wanted;
    }
    CHECK(rig->train(c.precision, c.by_graph, cudasim::Schedule::kRandom,
                     static_cast<uint64_t>(i) + 1) == expected);
  }
  CHECK(cudasim::order_findings().empty());
}

/// The pairs of choices, each with the number of its kind, that meet.
template <class Choose>
size_t n_pairs(Choose choose, int n_combinations) {
  std::set<std::tuple<size_t, int, size_t, int>> pairs;
  for (int i = 0; i < n_combinations; ++i) {
    const auto choices = choose(i).choices();
    for (size_t a = 0; a < choices.size(); ++a)
      for (size_t b = 0; b < a; ++b) pairs.insert({a, choices[a], b, choices[b]});
  }
  return pairs.size();
}

}  // namespace

TEST_CASE("DataParallel on virtual devices in random orders", "[device][sim]") {
  CHECK(n_pairs(pairwise, 24) == n_pairs(combination, 432));
  std::set<std::array<int, 5>> all;
  for (int i = 0; i < 432; ++i) all.insert(combination(i).choices());
  CHECK(all.size() == 432);
  check_random_orders(pairwise, 0, 24);
}

// The long walk in several test cases, so that they share the processors out.
TEST_CASE("DataParallel in many random orders: convolutions, float32", "[device][sim][slow]") {
  check_random_orders(combination, 0, 48);
}
TEST_CASE("DataParallel in many random orders: residual, float32", "[device][sim][slow]") {
  check_random_orders(combination, 48, 48);
}
TEST_CASE("DataParallel in many random orders: synchronised, float32", "[device][sim][slow]") {
  check_random_orders(combination, 96, 48);
}
TEST_CASE("DataParallel in many random orders: convolutions, bfloat16", "[device][sim][slow]") {
  check_random_orders(combination, 144, 48);
}
TEST_CASE("DataParallel in many random orders: residual, bfloat16", "[device][sim][slow]") {
  check_random_orders(combination, 192, 48);
}
TEST_CASE("DataParallel in many random orders: synchronised, bfloat16", "[device][sim][slow]") {
  check_random_orders(combination, 240, 48);
}
TEST_CASE("DataParallel in many random orders: convolutions, float16", "[device][sim][slow]") {
  check_random_orders(combination, 288, 48);
}
TEST_CASE("DataParallel in many random orders: residual, float16", "[device][sim][slow]") {
  check_random_orders(combination, 336, 48);
}
TEST_CASE("DataParallel in many random orders: synchronised, float16", "[device][sim][slow]") {
  check_random_orders(combination, 384, 48);
}

namespace {

/// Parameters after three steps of plain descent.
Content descend(DataParallel& parallel) {
  ReplicatedOptimizer sgd(parallel, [](const Module& replica) {
    return std::make_unique<Sgd>(replica.parameters(), SgdOptions{.lr = 0.5});
  });
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    const Tensor x = randn({7, 6}, Rng(2, RngPurpose::kUser, static_cast<uint64_t>(step)));
    cross_entropy(parallel(x), to(some_labels(7), parallel.devices()[0])).backward();
    sgd.step();
  }
  parallel.check_replicas();
  return content(parallel.module().state());
}

Content descend_from_one_state(const std::vector<Device>& devices) {
  manual_seed(7);
  TwoLayers model;
  DataParallel parallel(model, devices);
  return descend(parallel);
}

}  // namespace

TEST_CASE("DP-5: three devices where no pair, or all but one, has peer access", "[device][sim]") {
  const ProviderScope native(Provider::kNative);
  const Content one = descend_from_one_state(devices_of(1));
  for (const Peers peers : {Peers::kNone, Peers::kOnePairMissing}) {
    const MachineScope scope(cudasim::Schedule::kLatest, 1, peers);
    const Content three = descend_from_one_state(devices_of(3));
    CHECK(largest_difference(three, one) < 1e-5);
  }
}

TEST_CASE("DataParallel: a device that fails is named, and all others end", "[device][sim]") {
  const ProviderScope native(Provider::kNative);
  for (const auto schedule : {cudasim::Schedule::kEager, cudasim::Schedule::kLatest}) {
    for (const int64_t kernel : {1, 6, 20}) {
      INFO("schedule " << static_cast<int>(schedule) << ", kernel " << kernel);
      const MachineScope scope(schedule, 1);
      manual_seed(7);
      TwoLayers model;
      DataParallel parallel(model, devices_of(3), {.bucket_bytes = 16});
      cudasim::fail_at_kernel(1, kernel, cudaErrorIllegalAddress);
      const auto steps = [&] {
        for (int step = 0; step < 20; ++step) descend(parallel);
      };
      CHECK_THROWS_WITH(steps(), ContainsSubstring("cuda:1"));
      cudasim::set_sticky_error(1, cudaSuccess);
    }
  }
  CHECK(largest_difference(descend_from_one_state(devices_of(3)),
                           descend_from_one_state(devices_of(1))) < 1e-5);
}

// Eagerly: where work is late, other devices compute on what the failed one never sent.
TEST_CASE("DataParallel, synchronised: a device that fails is named, and all others end",
          "[device][sim][sync]") {
  const ProviderScope native(Provider::kNative);
  for (const int64_t kernel : {1, 30, 100, 170}) {
    INFO("kernel " << kernel);
    const MachineScope scope(cudasim::Schedule::kEager, 1);
    manual_seed(7);
    SmallResNet model;
    DataParallel parallel(model, devices_of(3), {.shards = 6, .sync_batch_norm = true});
    cudasim::fail_at_kernel(1, kernel, cudaErrorIllegalAddress);
    const auto steps = [&] {
      for (int step = 0; step < 20; ++step)
        parallel.forward_backward(some_images(6, 1), some_labels(6), mean_loss);
    };
    CHECK_THROWS_WITH(steps(), ContainsSubstring("cuda:1"));
    cudasim::set_sticky_error(1, cudaSuccess);
  }
}

TEST_CASE("DataParallel: what a failed backward left under way is waited for", "[device][sim]") {
  const ProviderScope native(Provider::kNative);
  const MachineScope scope(cudasim::Schedule::kLatest, 1);
  manual_seed(7);
  TwoLayers model;
  DataParallel parallel(model, devices_of(3), {.bucket_bytes = 16});
  bool fails = true;
  parallel.replica(2).parameters()[0].register_post_accumulate_grad_hook(
      [&](const Tensor&) { HEDDLE_CHECK(!fails, "hook: no more"); });
  const Tensor x = ones({6, 6});
  CHECK_THROWS_WITH(parallel.forward_backward(x, some_labels(6), mean_loss),
                    ContainsSubstring("replica 2 on cuda:2: hook: no more"));
  fails = false;
  const Content three = descend(parallel);
  CHECK(largest_difference(three, descend_from_one_state(devices_of(1))) < 1e-5);
  CHECK(cudasim::order_findings().empty());
}

TEST_CASE("DataParallel: a replica that a device let go astray is found", "[device][sim]") {
  TwoLayers model;
  DataParallel parallel(model, devices_of(3));
  parallel.check_replicas();
  {
    const NoGradGuard no_grad;
    Tensor weight = parallel.replica(1).parameters()[2];
    mul_(weight, 1.001);
  }
  CHECK_THROWS_WITH(parallel.check_replicas(),
                    ContainsSubstring("fc2.weight of replica 1 on cuda:1"));
  parallel.replicate();
  parallel.check_replicas();
}

}  // namespace heddle::test
