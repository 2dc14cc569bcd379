#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/step_graph.h"
#include "heddle/tests/parallel/small_training.h"

namespace heddle::test {

enum class Precision { kFloat32, kBFloat16, kFloat16 };

/// One step of a training: on how many rows, at what share of the learning rate and, in float16,
/// with what scale of the loss.
struct StepOptions {
  int64_t rows = 11;
  double lr_scale = 1.0;
  double loss_scale = 256.0;
};

constexpr double kOverflows = 1152921504606846976.0;  // 2^60, a scale at which float16 skips

/// Trains a DataParallel with Adam, by calls of its own API or, on batches of kGraphRows, as a
/// graph: one called step, then it is captured and replayed.
class ReplicatedTraining {
 public:
  static constexpr int64_t kGraphRows = 11;

  ReplicatedTraining(DataParallel& parallel, Precision precision, bool by_graph)
      : parallel_(parallel), precision_(precision), adam_(parallel, [](const Module& replica) {
          return std::make_unique<Adam>(replica.parameters(), AdamOptions{.lr = 1e-2});
        }) {
    if (precision == Precision::kFloat16)
      scaler_.emplace(GradScalerOptions{.max_scale = kOverflows});
    if (by_graph) graph_.emplace(parallel.devices(), 1);
  }

  /// Whether the step was taken.
  bool step(const StepOptions& options) {
    std::optional<Autocast> autocast;
    if (precision_ == Precision::kBFloat16) autocast.emplace(DType::kBFloat16);
    if (precision_ == Precision::kFloat16) autocast.emplace(DType::kFloat16);
    if (scaler_) scaler_->load_state({.scale = options.loss_scale});
    adam_.set_lr_scale(options.lr_scale);
    images_ = some_images(options.rows, static_cast<uint64_t>(step_));
    labels_ = some_labels(options.rows);
    const bool taken = graph_ && options.rows == kGraphRows ? step_by_graph() : step_by_calls();
    if (scaler_) scaler_->update();
    ++step_;
    return taken;
  }

  Content content_of_all() const {
    Content all = content(parallel_.module().state());
    for (const std::vector<float>& tensor : content(adam_.state())) all.push_back(tensor);
    return all;
  }
  const GradScaler& scaler() const { return *scaler_; }
  double loss() const { return loss_; }  ///< Of the last step.
  int64_t replays() const { return graph_ ? graph_->replays() : 0; }

 private:
  bool step_by_calls() {
    parallel_.set_step(step_);
    adam_.zero_grad();
    loss_ =
        parallel_.forward_backward(images_, labels_, mean_loss, scaler_ ? &*scaler_ : nullptr).loss;
    if (scaler_) return adam_.step(*scaler_, 1.0);
    adam_.step();
    return true;
  }

  bool step_by_graph() {
    const std::vector<BatchPart> parts = scattered();
    StepGraph::Tensors inputs;
    for (const BatchPart& part : parts) inputs.insert(inputs.end(), {part.images, part.labels});
    adam_.begin_step(scaler_ ? 1.0 / scaler_->get_scale() : 1.0);
    const StepGraph::Tensors losses = graph_->run(
        inputs, [&](const StepGraph::Tensors& in) { return body(parts, in); }, step_);
    const bool taken = adam_.finish_step();
    if (scaler_) scaler_->note_step(taken);
    loss_ = 0.0;
    for (size_t i = 0; i < losses.size(); ++i) loss_ += losses[i].item() * rows_[i];
    loss_ /= static_cast<double>(kGraphRows);
    return taken;
  }

  StepGraph::Tensors body(std::vector<BatchPart> parts, const StepGraph::Tensors& inputs) {
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].images = inputs[2 * i];
      parts[i].labels = inputs[2 * i + 1];
    }
    parallel_.set_step(step_);
    adam_.zero_grad();
    const DataParallel::Queued queued =
        parallel_.queue_forward_backward(parts, mean_loss, scaler_ ? &*scaler_ : nullptr);
    if (scaler_) adam_.check_gradients(1.0);
    if (!scaler_) adam_.check_losses(queued.mean_losses);
    adam_.apply_step();
    StepGraph::Tensors losses;
    rows_.clear();
    for (const DataParallel::Queued::Shard& shard : queued.shards) {
      losses.push_back(shard.loss);
      rows_.push_back(static_cast<double>(shard.labels.size(0)));
    }
    return losses;
  }

  std::vector<BatchPart> scattered() const {
    std::vector<BatchPart> parts;
    int64_t row = 0;
    const std::vector<int64_t> rows = parallel_.rows_by_device(kGraphRows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const Device device = parallel_.devices()[i];
      parts.push_back({row, to(narrow(images_, 0, row, rows[i]), device),
                       to(narrow(labels_, 0, row, rows[i]), device)});
      row += rows[i];
    }
    return parts;
  }

  DataParallel& parallel_;
  Precision precision_;
  ReplicatedOptimizer adam_;
  std::optional<GradScaler> scaler_;
  int64_t step_ = 0;
  double loss_ = 0.0;
  Tensor images_, labels_;
  std::vector<double> rows_;  // of the graph's shards
  std::optional<StepGraph> graph_;
};

}  // namespace heddle::test
