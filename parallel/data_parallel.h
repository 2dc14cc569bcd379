#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "heddle/data/loader.h"
#include "heddle/nn/amp/grad_scaler.h"
#include "heddle/nn/module.h"
#include "heddle/parallel/exchange_plan.h"
#include "heddle/parallel/exchange_traffic.h"

namespace heddle {

struct DataParallelOptions {
  int64_t shards = 0;  ///< Parts that each batch is cut into; 0: one a device.
  /// Each device's part of a batch in proportion to these, for devices that differ in speed. Empty:
  /// even parts. Only with one shard a device.
  std::vector<int64_t> split;
  /// None: the fastest over the links measured, of those that add in tree order. kRing does not:
  /// with it the number of devices changes the bits, whatever the shards.
  std::optional<ExchangeKind> exchange;
  /// None: what the devices have. A pair that lacks peer access here goes through the host.
  std::optional<Links> links;
  /// Batch-norm in training takes the statistics of the whole batch, as PyTorch's SyncBatchNorm
  /// does, where it would else normalise each shard by itself. All shards then hold their
  /// activations at the same time. At most 256 shards.
  bool sync_batch_norm = false;
  int64_t bucket_bytes = 4 << 20;  ///< Gradients are exchanged in buckets of at least this size.
};

/// The mean loss of the rows given: output of the model, and labels.
using LossFunction = std::function<Tensor(const Tensor& output, const Tensor& labels)>;

/// A model on several devices at once, each with a part of every batch. As PyTorch's DataParallel,
///
///     DataParallel parallel(model, parse_devices("cuda:0,cuda:1"));
///     Tensor loss = cross_entropy(parallel(images), labels);
///     loss.backward();
///
/// but the replicas persist, and after backward all of them have the gradient of the whole batch,
/// the same bits each; gradients are summed while backward is still running. Replica 0 is `model`
/// itself. Let a ReplicatedOptimizer move all replicas; where only the model's own parameters were
/// moved (by an optimizer of PyTorch's kind, or load_state), the next call hands them round first.
/// `cpu` may be given several times: replicas that share the processor's threads out.
///
/// Each batch is cut into shards, as evenly as can be unless a split is given, and each device has
/// a run of them; where there are fewer samples than shards, the last ones are left out. Batch-norm
/// normalises a shard, or the whole batch where the options say so; running statistics become the
/// average over shards, weighted by samples, or move once by those of the whole batch, on all
/// replicas. Dropout draws by the row in the whole batch. Numerics: with the same number of
/// shards, 1, 2, 4 and 8 devices of one kind give the same bits. Errors: those of a replica, its
/// device named first, once all others have ended; the model is as before the call, but for its
/// running statistics. Devices of different kinds, or one CUDA device twice; parameters that are
/// not float32.
class DataParallel {
 public:
  using ModelFactory = std::function<std::unique_ptr<Module>()>;

  template <std::derived_from<Module> M>
  requires std::default_initializable<M> DataParallel(M& model, const std::vector<Device>& devices,
                                                      const DataParallelOptions& options = {})
      : DataParallel(
            model, [] { return std::make_unique<M>(); }, devices, options) {}
  /// `make` gives modules of the model's structure; their values do not matter.
  DataParallel(Module& model, const ModelFactory& make, const std::vector<Device>& devices,
               const DataParallelOptions& options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// The model's output for all rows of x, in their order, on the first device.
  Tensor operator()(const Tensor& x);

  struct Result {
    double loss = 0.0;  ///< Mean over the batch.
    Tensor output;      ///< In the order of rows, on the first device, without history.
  };
  /// Forward, loss and backward shard by shard, which holds no more than a shard's activations on
  /// each device: gradients of the batch's mean loss, on all replicas, times the scale of `scaler`
  /// where there is one.
  Result forward_backward(const Tensor& x, const Tensor& labels, const LossFunction& loss,
                          GradScaler* scaler = nullptr);

  /// The same on a batch whose parts lie on their devices already: those of a loader with devices()
  /// as lanes and rows_by_device as split. Errors: parts that are cut in another way.
  Result forward_backward(const std::vector<BatchPart>& parts, const LossFunction& loss,
                          GradScaler* scaler = nullptr);

  /// What queue_forward_backward leaves on the devices; nothing has history.
  struct Queued {
    struct Shard {
      Tensor output, labels, loss;
    };
    std::vector<Shard> shards;  ///< In the order of rows, each on the device that computes it.
    std::vector<Tensor> mean_losses;  ///< The batch's in float32, on each replica the same bits.

    double mean_loss() const;  ///< Result's. Waits for the devices.
  };
  /// forward_backward without waiting for a device: what a graph may hold of a step
  /// (nn/step_graph.h). There all parts need rows.
  Queued queue_forward_backward(const std::vector<BatchPart>& parts, const LossFunction& loss,
                                GradScaler* scaler = nullptr);
  /// How many rows of a batch of n each device computes.
  std::vector<int64_t> rows_by_device(int64_t n) const;

  int size() const;  ///< Replicas.
  int64_t shards() const;
  ExchangeKind exchange() const;  ///< As given or chosen.
  const std::vector<Device>& devices() const;
  /// What exchanges of gradients and buffers have carried since it was made, replays of graphs not
  /// counted.
  ExchangeTraffic traffic() const;
  Module& module() { return replica(0); }
  Module& replica(int index);
  std::vector<Tensor> parameters() const;  ///< Of replica 0.
  void train(bool training = true);
  void eval() { train(false); }
  void set_step(int64_t step);  ///< As Module::set_step.
  void zero_grad();

  /// Calls `function(index, replica)` for all replicas at once, each on the thread of its device.
  void for_each_replica(const std::function<void(int index, Module& replica)>& function);
  /// Copies parameters, buffers and modes of replica 0 to all others, by a tree of copies.
  void replicate();
  /// The same where replica 0 alone was written to since the last step: as forward does, for steps
  /// that a graph replays.
  void refresh();
  /// Compares all replicas bit by bit (by a hash of each tensor).
  /// Errors: the first tensor that differs, and on which device.
  void check_replicas();

 private:
  struct State;
  std::shared_ptr<State> state_;  // graphs and the hooks of the model's parameters may outlive this
};

}  // namespace heddle
