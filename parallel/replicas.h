#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "heddle/nn/module.h"
#include "heddle/parallel/reducer.h"

namespace heddle {

/// The copies of a model on several devices, and what keeps them alike: their gradients and moving
/// buffers are summed through Reducers. The functions that take a lane are called on its thread,
/// the others while no lane works.
class Replicas {
 public:
  using ModelFactory = std::function<std::unique_ptr<Module>()>;
  Replicas(Module& model, const ModelFactory& make, const std::vector<Device>& devices,
           ExchangeKind kind, const Links& links, int64_t bucket_bytes);

  int size() const { return static_cast<int>(models_.size()); }
  Module& model(int lane) const { return *models_[static_cast<size_t>(lane)]; }

  void replicate();
  void refresh();  ///< Replicates where replica 0 alone was written to since the last time.

  /// While it lives, gradients of the lanes' parameters go to the buckets. Lanes that were
  /// announced without shards are done when it begins.
  class Collecting {
   public:
    explicit Collecting(Replicas& replicas);
    ~Collecting();
    Collecting(const Collecting&) = delete;
    Collecting& operator=(const Collecting&) = delete;

   private:
    Replicas& replicas_;
  };

  // Shards are numbered in their lane.
  void begin_gradients(const std::vector<int64_t>& n_shards);
  /// `loss` may be undefined: it counts as 0.
  void begin_gradient_shard(int lane, int64_t shard, const Tensor& loss, double share);
  void end_gradient_shard(int lane, int64_t shard);
  void finish_gradients();             ///< All replicas' gradients are the sums.
  Tensor summed_loss(int lane) const;  ///< Of the shards' losses times their shares.

  void begin_buffers(const std::vector<int64_t>& n_shards);
  void begin_buffer_shard(int lane, int64_t shard);  ///< All begin with the same buffers.
  void end_buffer_shard(int lane, int64_t shard, double share);
  void finish_buffers();  ///< All replicas' buffers are the averages.

  /// Where shards of a lane take turns: what they have in the module is kept, and put back.
  void pause_shard(int lane, int64_t shard);
  void resume_shard(int lane, int64_t shard);
  /// In place of begin_buffers and finish_buffers where each lane's first shard moves the buffers
  /// of batch-norms, to the same values. Errors: another buffer was written to.
  void begin_alike_buffers(const std::vector<int64_t>& n_shards);
  void finish_alike_buffers();

  /// Where a lane has failed: waits for the exchanges that are under way.
  void give_up() noexcept;

  ExchangeTraffic traffic() const;  ///< Of gradients and buffers.

  std::vector<uint64_t> fingerprints(int lane) const;  ///< Of each tensor.
  /// Errors: names the first tensor that differs.
  void compare(const std::vector<std::vector<uint64_t>>& fingerprints) const;

 private:
  /// Where a tensor lies in the buckets.
  struct Place {
    int bucket;
    int place;
  };
  struct Lane {
    std::vector<Tensor> parameters;
    std::vector<Tensor> averaged;  // floating buffers
    std::vector<Tensor> counted;   // the others: alike after any shard
    std::vector<Tensor> before;    // copies of both kinds of buffers
    std::vector<Tensor> earlier;   // gradients that were there before backward; mostly undefined
    std::vector<int64_t> versions;
    std::vector<int64_t> other_versions;      // of buffers that are no batch-norm's
    std::vector<std::vector<int64_t>> steps;  // of modules, by paused shard
    Tensor no_loss;                           // 0
    int64_t n_shards = 0;
    int64_t shard = 0;  // the one that computes
    bool collecting = false;
  };
  struct Hooks;

  void fill_buckets(int64_t bucket_bytes);
  void set_hooks();
  void note_versions();
  void take_gradient(int lane, size_t index, const Tensor& parameter);
  std::vector<Tensor> all_buffers(const Lane& lane) const;
  std::vector<int64_t> other_versions(int lane) const;
  const Lane& first_busy_lane() const;

  std::vector<std::unique_ptr<Module>> copies_;
  std::vector<Module*> models_;
  std::vector<Lane> lanes_;
  Reducer gradients_;
  Reducer buffers_;
  std::vector<Place> places_;  // of parameters
  int loss_place_ = 0;         // in the first bucket
  int buffer_bucket_ = -1;
  std::vector<int> n_in_bucket_;
  std::shared_ptr<Hooks> hooks_;
};

}  // namespace heddle
