#pragma once

#include <memory>
#include <vector>

#include "heddle/core/rng.h"
#include "heddle/core/tape.h"
#include "heddle/nn/models/tiny_cnn.h"
#include "heddle/nn/modules/batch_norm2d.h"
#include "heddle/nn/modules/linear.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/optim/adam.h"
#include "heddle/parallel/data_parallel.h"
#include "heddle/parallel/replicated_optimizer.h"
#include "heddle/tests/support/catch.h"

namespace heddle::test {

inline Tensor some_images(int64_t n, uint64_t step) {
  return randn({n, 3, 8, 8}, Rng(3, RngPurpose::kUser, step));
}

inline Tensor some_labels(int64_t n) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < n; ++i) labels.push_back(i * 7 % 10);
  return Tensor::from(labels, {n});
}

inline Tensor mean_loss(const Tensor& output, const Tensor& labels) {
  return cross_entropy(output, labels);
}

/// The least that has hidden values: 105 parameters.
class TwoLayers : public Module {
 public:
  Tensor forward(const Tensor& x) override { return fc2(tanh(fc1(x))); }
  Linear& fc1 = add("fc1", Linear(6, 5));
  Linear& fc2 = add("fc2", Linear(5, 10));
};

/// One batch-norm of one channel.
class OneNorm : public Module {
 public:
  Tensor forward(const Tensor& x) override { return bn(x); }
  BatchNorm2d& bn = add("bn", BatchNorm2d(1));
};

using Content = std::vector<std::vector<float>>;

inline Content content(const NamedTensors& state) {
  Content result;
  for (const auto& [name, tensor] : state) result.push_back(tensor.to_vector<float>());
  return result;
}

inline Content gradients(const Module& model) {
  Content result;
  for (const Tensor& parameter : model.parameters())
    result.push_back(parameter.grad().to_vector<float>());
  return result;
}

inline void check_close(const Content& a, const Content& b, double margin) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < a[i].size(); ++k) CHECK(a[i][k] == Approx(b[i][k]).margin(margin));
}

/// What a model M (with batch-norm and dropout, say) is after a few steps on these devices.
template <class M>
Content train_on(const std::vector<Device>& devices, const DataParallelOptions& options,
                 int64_t batch = 19, int steps = 3) {
  manual_seed(5);
  M model;
  DataParallel parallel(model, devices, options);
  ReplicatedOptimizer adam(parallel, [](const Module& replica) {
    return std::make_unique<Adam>(replica.parameters(), AdamOptions{.lr = 1e-2});
  });
  for (int step = 0; step < steps; ++step) {
    parallel.set_step(step);
    adam.zero_grad();
    parallel.forward_backward(some_images(batch, static_cast<uint64_t>(step)), some_labels(batch),
                              mean_loss);
    adam.step();
  }
  parallel.check_replicas();
  return content(model.state());
}

inline std::vector<Device> on_cpu(size_t n) { return std::vector<Device>(n, Device::cpu()); }

}  // namespace heddle::test
