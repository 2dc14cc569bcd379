// A step that is replayed as a graph against the same step called each time: the same bits.
#include "heddle/nn/step_graph.h"

#include <cmath>
#include <limits>

#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/amp/grad_scaler.h"
#include "heddle/nn/modules/conv2d.h"
#include "heddle/nn/modules/linear.h"
#include "heddle/nn/modules/pooling.h"
#include "heddle/nn/modules/sequential.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/optim/adam.h"
#include "heddle/tests/nn/golden/formula.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

const Device kDevice{DeviceType::kCuda, 0};

/// Trains a small network in float16 with a scaler, with or without graphs.
class Training {
 public:
  explicit Training(bool by_graph) : net_(make_net()), adam_(net_.parameters(), {.lr = 1e-2}) {
    if (by_graph) graph_.emplace(kDevice, 2);
  }

  /// The loss, times `factor`, of n pictures.
  double step(int64_t n, float factor, double lr_scale) {
    const StepGraph::Tensors inputs{to(golden::pictures({n, 3, 8, 8}), kDevice),
                                    to(golden::labels(n), kDevice),
                                    to(Tensor::from<float>({factor}, {1}), kDevice)};
    const auto body = [this](const StepGraph::Tensors& given) { return run(given); };
    adam_.set_lr_scale(lr_scale);
    adam_.begin_step(1.0 / scaler_.get_scale());
    const StepGraph::Tensors outputs = graph_ ? graph_->run(inputs, body) : body(inputs);
    scaler_.note_step(adam_.finish_step());
    scaler_.update();
    return outputs[0].item();
  }

  std::vector<std::vector<float>> weights() const {
    std::vector<std::vector<float>> result;
    for (const Tensor& parameter : net_.parameters())
      result.push_back(parameter.to_vector<float>());
    for (const auto& [name, tensor] : adam_.state()) result.push_back(tensor.to_vector<float>());
    return result;
  }
  const GradScaler& scaler() const { return scaler_; }
  int64_t steps() const { return adam_.steps(); }
  int64_t replays() const { return graph_ ? graph_->replays() : 0; }

 private:
  static Sequential make_net() {
    manual_seed(6);
    Sequential net(Conv2d(3, 4, 3, {.padding = 1, .fuse_relu = true}), MaxPool2d(2),
                   Linear(ImageSize{4, 4, 4}, 10));
    net.to(kDevice);
    return net;
  }

  StepGraph::Tensors run(const StepGraph::Tensors& inputs) {
    const Autocast half(DType::kFloat16);
    adam_.zero_grad();
    const Tensor loss = cross_entropy(net_(inputs[0]), inputs[1]);
    scaler_.scale(sum(loss * inputs[2])).backward();
    adam_.check_gradients(/*max_norm=*/1.0);
    adam_.apply_step();
    return {loss.detach()};
  }

  Sequential net_;
  Adam adam_;
  GradScaler scaler_{{.init_scale = 256.0, .growth_interval = 3}};
  std::optional<StepGraph> graph_;
};

TEST_CASE("a replayed step has the bits of a called one, whatever changes between", "[device]") {
  Training called(false), replayed(true);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  struct Row {
    int64_t n;
    float factor;
    double lr_scale;
  };
  const Row rows[] = {{4, 1, 1.0},    {4, 1, 1.0},   {4, 1, 0.5}, {4, kInf, 0.5}, {4, 1, 0.25},
                      {3, 1, 0.25},   {4, 2, 1.0},   {3, 1, 0.5}, {4, kInf, 1.0}, {3, 1, 0.75},
                      {3, kInf, 0.5}, {4, 1, 0.125}, {3, 1, 1.0}};
  int64_t taken = 0;
  for (const Row& row : rows) {
    CAPTURE(row.n, row.factor, row.lr_scale, taken);
    const double expected = called.step(row.n, row.factor, row.lr_scale);
    CHECK(replayed.step(row.n, row.factor, row.lr_scale) == expected);
    CHECK(replayed.weights() == called.weights());
    CHECK(replayed.scaler().state() == called.scaler().state());
    taken += std::isinf(row.factor) ? 0 : 1;
    CHECK(replayed.steps() == taken);
  }
  CHECK(replayed.replays() == 9);  // two called for each of two shapes
}

TEST_CASE("what cannot be captured is refused, and the device goes on", "[device]") {
  const Tensor x = ones({4}, DType::kFloat32, kDevice);
  StepGraph drops(kDevice, 1);
  const StepGraph::Body body = [](const StepGraph::Tensors& in) {
    return StepGraph::Tensors{dropout(in[0], 0.5, Rng(1, RngPurpose::kDropout))};
  };
  drops.run({x}, body);
  CHECK_THROWS_WITH(drops.run({x}, body), ContainsSubstring("the number of the step"));
  CHECK(sum(x).item() == 4.0);
  CHECK_THROWS_WITH(drops.run({ones({4})}, body), ContainsSubstring("is on cpu"));
  CHECK_THROWS_WITH(StepGraph(Device::cpu()), ContainsSubstring("cpu has no graphs"));
}

TEST_CASE("dropout under a graph draws by the step's number, whatever its order", "[device]") {
  const Tensor x = ones({4, 6, 2, 2}, DType::kFloat32, kDevice);
  const auto drawn = [&](int64_t step) {
    return dropout(x, 0.5, Rng(1, RngPurpose::kDropout, static_cast<uint64_t>(step), 7))
        .to_vector<float>();
  };
  StepGraph graph(kDevice, 1);
  for (const int64_t step : {3, 5, 6, 6, 2, 90}) {
    const StepGraph::Body body = [&](const StepGraph::Tensors& in) {
      const Rng rng(1, RngPurpose::kDropout, static_cast<uint64_t>(step), 7);
      return StepGraph::Tensors{dropout(in[0], 0.5, rng)};
    };
    CHECK(graph.run({x}, body, step)[0].to_vector<float>() == drawn(step));
    CHECK_FALSE(drawn(step) == drawn(step + 1));
  }
  CHECK(graph.replays() == 5);
}

}  // namespace
}  // namespace heddle
