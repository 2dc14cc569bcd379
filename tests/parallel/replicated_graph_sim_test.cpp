// Steps of a DataParallel as one graph of all devices: what cannot be replayed, what fails, and
// what changes between replays. That replays have the bits of calls: data_parallel_sim_test.cpp.
#include <cudasim/order.h>

#include "heddle/nn/models/tiny_cnn.h"
#include "heddle/tests/parallel/replicated_training.h"
#include "heddle/tests/parallel/virtual_devices.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/provider_scope.h"

namespace heddle::test {
namespace {

constexpr StepOptions kSteps[] = {{},
                                  {.lr_scale = 0.5},
                                  {.loss_scale = kOverflows},
                                  {.lr_scale = 0.25, .loss_scale = 8.0},
                                  {.rows = 4},
                                  {.rows = 12, .loss_scale = kOverflows},
                                  {.loss_scale = kOverflows},
                                  {.loss_scale = 1024.0}};

struct Outcome {
  std::vector<bool> taken;
  std::vector<double> losses;
  Content content;
  int64_t replays = 0;
  bool operator==(const Outcome& other) const {
    return taken == other.taken && losses == other.losses && content == other.content;
  }
};

Outcome train(const DataParallelOptions& options, Precision precision, bool by_graph) {
  manual_seed(5);
  TinyCnn model;
  DataParallel parallel(model, devices_of(3), options);
  ReplicatedTraining training(parallel, precision, by_graph);
  Outcome outcome;
  for (const StepOptions& step : kSteps) {
    outcome.taken.push_back(training.step(step));
    outcome.losses.push_back(training.loss());
  }
  parallel.check_replicas();
  outcome.content = training.content_of_all();
  outcome.replays = training.replays();
  return outcome;
}

TEST_CASE("DataParallel: replayed steps have the bits of called ones by every exchange",
          "[device][sim][graph]") {
  const ProviderScope native(Provider::kNative);
  for (const ExchangeKind kind :
       {ExchangeKind::kDirect, ExchangeKind::kRing, ExchangeKind::kGather}) {
    for (const Peers peers : {Peers::kAll, Peers::kOnePairMissing}) {
      INFO(exchange_kind_name(kind) << ", peers " << static_cast<int>(peers));
      const MachineScope scope(cudasim::Schedule::kLatest, 1, peers);
      const DataParallelOptions options{.shards = 3, .exchange = kind, .bucket_bytes = 256};
      const Outcome called = train(options, Precision::kFloat16, false);
      const Outcome replayed = train(options, Precision::kFloat16, true);
      CHECK(replayed == called);
      CHECK(replayed.replays == 5);
      CHECK(called.taken == std::vector<bool>{true, true, false, true, true, false, false, true});
    }
  }
  CHECK(cudasim::order_findings().empty());
}

TEST_CASE("DataParallel: a device that fails in a replayed step is named, and all others end",
          "[device][sim][graph]") {
  const ProviderScope native(Provider::kNative);
  for (const auto schedule : {cudasim::Schedule::kEager, cudasim::Schedule::kLatest}) {
    for (const int64_t kernel : {1, 7, 60}) {
      INFO("schedule " << static_cast<int>(schedule) << ", kernel " << kernel);
      const MachineScope scope(schedule, 1);
      {
        TinyCnn model;
        DataParallel parallel(model, devices_of(3), {.bucket_bytes = 256});
        ReplicatedTraining training(parallel, Precision::kFloat32, true);
        for (int step = 0; step < 3; ++step) training.step({});
        CHECK(training.replays() == 2);
        cudasim::fail_at_kernel(1, kernel, cudaErrorIllegalAddress);
        CHECK_THROWS_WITH(training.step({}), ContainsSubstring("cuda:1") &&
                                                 ContainsSubstring("cudaErrorIllegalAddress"));
      }
      cudasim::set_sticky_error(1, cudaSuccess);
    }
  }
  const MachineScope scope(cudasim::Schedule::kLatest, 1);
  CHECK(train({}, Precision::kFloat32, true) == train({}, Precision::kFloat32, false));
  CHECK(cudasim::order_findings().empty());
}

TEST_CASE("DataParallel: replays go on after a called step that failed halfway",
          "[device][sim][graph]") {
  const ProviderScope native(Provider::kNative);
  const auto weights = [](bool by_graph) {
    const MachineScope scope(cudasim::Schedule::kLatest, 1);
    manual_seed(5);
    TinyCnn model;
    DataParallel parallel(model, devices_of(3), {.shards = 6, .bucket_bytes = 16});
    bool fails = false;
    parallel.replica(2).parameters()[0].register_post_accumulate_grad_hook(
        [&](const Tensor&) { HEDDLE_CHECK(!fails, "hook: no more"); });
    ReplicatedTraining training(parallel, Precision::kFloat32, by_graph);
    for (int step = 0; step < 3; ++step) training.step({});
    fails = true;
    CHECK_THROWS_WITH(training.step({.rows = 7}), ContainsSubstring("cuda:2: hook: no more"));
    fails = false;
    CHECK(training.step({}));
    parallel.check_replicas();
    CHECK(training.replays() == (by_graph ? 3 : 0));
    Content result;
    for (const Tensor& parameter : model.parameters())
      result.push_back(parameter.to_vector<float>());
    return result;
  };
  CHECK(weights(true) == weights(false));
  CHECK(cudasim::order_findings().empty());
}

TEST_CASE("DataParallel: what replica 0 alone is given is handed round before a replay",
          "[device][sim][graph]") {
  const ProviderScope native(Provider::kNative);
  const MachineScope scope(cudasim::Schedule::kLatest, 1);
  manual_seed(5);
  TinyCnn model, other;
  DataParallel parallel(model, devices_of(3));
  ReplicatedTraining training(parallel, Precision::kBFloat16, true);
  for (int step = 0; step < 3; ++step) training.step({});
  model.load_state(other.state());
  training.step({});
  parallel.check_replicas();
  CHECK(training.replays() == 3);
}

TEST_CASE("DataParallel: what a graph cannot hold is refused, and the devices go on",
          "[device][sim][graph]") {
  const ProviderScope native(Provider::kNative);
  const MachineScope scope(cudasim::Schedule::kLatest, 1);
  TinyCnn model;
  DataParallel parallel(model, devices_of(3));
  StepGraph graph(parallel.devices(), 1);
  const Tensor x = to(some_images(6, 0), devices_of(1)[0]);
  const StepGraph::Body body = [&](const StepGraph::Tensors& in) {
    return StepGraph::Tensors{parallel(in[0])};
  };
  const Tensor y = graph.run({x}, body, 0)[0];
  CHECK_THROWS_AS(graph.run({x}, body, 1), CaptureError);
  CHECK_THROWS_WITH(graph.run({x}, body, 1),
                    ContainsSubstring("a copy from cuda:0 to cuda:1 cannot be captured"));
  parallel.eval();
  CHECK(parallel(x).size(0) == y.size(0));
  TinyCnn whole;
  DataParallel synchronised(whole, devices_of(3), {.sync_batch_norm = true});
  ReplicatedTraining training(synchronised, Precision::kFloat32, true);
  CHECK(training.step({}));
  CHECK_THROWS_WITH(training.step({}), ContainsSubstring("shards that wait for each other"));
  CHECK_THROWS_WITH(graph.run({to(x, devices_of(4)[3])}, body),
                    ContainsSubstring("an input is on cuda:3, expected cuda:0, cuda:1, cuda:2"));
  CHECK_THROWS_WITH(StepGraph({devices_of(1)[0], devices_of(1)[0]}),
                    ContainsSubstring("cuda:0 is given more than once"));
  CHECK_THROWS_WITH(StepGraph(std::vector<Device>{}), ContainsSubstring("no devices"));
}

}  // namespace
}  // namespace heddle::test
