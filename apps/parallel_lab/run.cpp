#include "heddle/apps/parallel_lab/run.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "heddle/apps/parallel_lab/machine.h"
#include "heddle/apps/parallel_lab/models.h"
#include "heddle/core/rng.h"
#include "heddle/core/tape.h"
#include "heddle/core/trace.h"
#include "heddle/kernels/provider.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/optim/adam.h"
#include "heddle/parallel/fingerprint.h"
#include "heddle/parallel/replicated_optimizer.h"

namespace heddle::lab {
namespace {

constexpr int64_t kClasses = 10;

Tensor loss_of(const Tensor& output, const Tensor& labels) {
  const TraceSpan span("loss", "module");
  return cross_entropy(output, labels);
}

/// Of all tensors together.
uint64_t fingerprint_of(const std::vector<Tensor>& tensors) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const Tensor& tensor : tensors) hash = (hash ^ fingerprint(tensor)) * 0x100000001B3U;
  return hash;
}

void check_alike(const std::vector<uint64_t>& prints, const char* what, int64_t step) {
  for (size_t r = 1; r < prints.size(); ++r)
    HEDDLE_CHECK(prints[r] == prints[0],
                 "parallel_lab: after step {} the {} of replica {} have other bits than those of "
                 "replica 0",
                 step + 1, what, r);
}

void add(std::vector<std::vector<int64_t>>& sum, const std::vector<std::vector<int64_t>>& more) {
  if (sum.empty()) sum.assign(more.size(), std::vector<int64_t>(more.size()));
  for (size_t i = 0; i < more.size(); ++i)
    for (size_t k = 0; k < more.size(); ++k) sum[i][k] += more[i][k];
}

/// A model in training on all devices, always on the same batch.
class Training {
 public:
  Training(const RunSetup& setup, const Faults& faults, const Links& links)
      : setup_(setup),
        model_((manual_seed(1), make_lab_model(setup.model))),
        parallel_(*model_, [&setup] { return make_lab_model(setup.model); }, setup.devices,
                  {.split = setup.split,
                   .exchange = setup.kind,
                   .links = links,
                   .bucket_bytes = setup.bucket_bytes}),
        adam_(parallel_,
              [](const Module& replica) {
                return std::make_unique<Adam>(replica.parameters(), AdamOptions{.lr = 1e-3});
              }),
        injection_(parallel_, faults) {
    parallel_.for_each_replica([](int replica, Module&) { set_thread_name(replica_row(replica)); });
    make_batch();
  }

  DataParallel& parallel() { return parallel_; }
  const FaultInjection& injection() const { return injection_; }

  /// Where `timeline` is given, the step is traced. What copies have carried meanwhile is added to
  /// `counted`.
  StepRecord step(int64_t number, Timeline* timeline,
                  std::vector<std::vector<int64_t>>* counted = nullptr) {
    StepRecord record;
    wait();
    clear_counted_bytes();
    const auto work = [&] { record.loss = forward_backward_update(number, false); };
    if (timeline != nullptr) {
      *timeline = trace_step(setup_.devices, work);
    } else {
      work();
    }
    if (counted != nullptr) add(*counted, counted_bytes(setup_.devices));
    record.gradients = prints([](const Tensor& parameter) { return parameter.grad(); });
    record.weights = weights();
    check_alike(record.gradients, "gradients", number);
    check_alike(record.weights, "weights", number);
    return record;
  }

  /// A step in which a replica is lost.
  Loss lose(int64_t number, Timeline* timeline) {
    Loss loss;
    const std::vector<uint64_t> before = weights();
    const auto work = [&] {
      const auto begin = std::chrono::steady_clock::now();
      try {
        (void)forward_backward_update(number, true);
      } catch (const Error& error) {
        loss.error = error.what();
      }
      loss.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    if (timeline != nullptr) {
      *timeline = trace_step(setup_.devices, work);
    } else {
      work();
    }
    std::atomic<int> answers{0};
    parallel_.for_each_replica([&](int, Module&) { ++answers; });
    loss.lanes_ended = answers;
    loss.weights_unchanged = weights() == before;
    return loss;
  }

  std::vector<uint64_t> weights() {
    return prints([](const Tensor& parameter) { return parameter; });
  }

 private:
  double forward_backward_update(int64_t number, bool lose_replica) {
    injection_.begin_step(lose_replica);
    parallel_.set_step(number);
    adam_.zero_grad();
    const double loss = parallel_.forward_backward(parts_, loss_of).loss;
    const TraceSpan span("update", "update");
    adam_.step();
    wait();
    return loss;
  }

  void wait() const {
    for (const Device device : setup_.devices) wait_for(device);
  }

  template <class Which>
  std::vector<uint64_t> prints(const Which& which) {
    std::vector<uint64_t> result(setup_.devices.size());
    parallel_.for_each_replica([&](int replica, Module& module) {
      std::vector<Tensor> tensors;
      for (const Tensor& parameter : module.parameters()) tensors.push_back(which(parameter));
      result[static_cast<size_t>(replica)] = fingerprint_of(tensors);
    });
    return result;
  }

  void make_batch() {
    const Tensor images =
        randn(batch_shape(setup_.model, setup_.batch_size), Rng(3, RngPurpose::kUser, 0));
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < setup_.batch_size; ++i) numbers.push_back(i * 7 % kClasses);
    const Tensor labels = Tensor::from(numbers, {setup_.batch_size});
    const std::vector<int64_t> rows = parallel_.rows_by_device(setup_.batch_size);
    int64_t first = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
      BatchPart& part = parts_.emplace_back();
      part.first_row = first;
      first += rows[r];
      if (rows[r] == 0) continue;
      part.images = to(narrow(images, 0, part.first_row, rows[r]), setup_.devices[r]);
      part.labels = to(narrow(labels, 0, part.first_row, rows[r]), setup_.devices[r]);
    }
  }

  const RunSetup& setup_;
  std::unique_ptr<Module> model_;
  DataParallel parallel_;
  ReplicatedOptimizer adam_;
  FaultInjection injection_;
  std::vector<BatchPart> parts_;
};

/// What the completed steps have carried.
void note_traffic(Training& training, const RunSetup& setup, RunOutcome& outcome) {
  const ExchangeTraffic traffic = training.parallel().traffic();
  outcome.exchanges = traffic.calls;
  outcome.bytes = traffic.bytes;
  outcome.least_bytes = least_bytes(static_cast<int>(setup.devices.size()), traffic.elements);
  for (size_t r = 1; r < outcome.images.size(); ++r)
    outcome.output_bytes += outcome.images[r] * kClasses * size_of(DType::kFloat32) *
                            static_cast<int64_t>(outcome.steps.size());
}

std::vector<uint64_t> train(const RunSetup& setup, RunOutcome& outcome) {
  Training training(setup, setup.faults, setup.links);
  const bool timed = setup.devices[0].type == DeviceType::kCpu || !devices_are_virtual();
  outcome.images = training.parallel().rows_by_device(setup.batch_size);
  Timeline timeline;
  const bool loses = setup.faults.lost_replica >= 0;
  for (int64_t number = 0; number + (loses ? 1 : 0) < setup.steps; ++number)
    outcome.steps.push_back(training.step(
        number, timed && number + 1 == setup.steps ? &timeline : nullptr, &outcome.counted));
  note_traffic(training, setup, outcome);
  if (loses) {
    outcome.lost = training.lose(setup.steps - 1, timed ? &timeline : nullptr);
    outcome.lost->loss_of_repeat = training.step(setup.steps - 1, nullptr).loss;
  }
  if (timed) outcome.timeline = std::move(timeline);
  outcome.slept_seconds = training.injection().slept_seconds();
  return training.weights();
}

std::vector<uint64_t> train_without_faults(const RunSetup& setup) {
  Training training(setup, {}, Links(setup.links.size()));
  for (int64_t number = 0; number < setup.steps; ++number) (void)training.step(number, nullptr);
  return training.weights();
}

bool lacks_peer_access(const Links& links) {
  for (int a = 0; a < links.size(); ++a)
    for (int b = 0; b < links.size(); ++b)
      if (!links.at(a, b).peer_access) return true;
  return false;
}

}  // namespace

RunOutcome run_steps(const RunSetup& setup) {
  set_provider(Provider::kNative);
  const bool is_virtual = devices_are_virtual() && setup.devices[0].type == DeviceType::kCuda;
  const bool cut = setup.devices[0].type == DeviceType::kCuda && lacks_peer_access(setup.links);
  RunOutcome outcome;
  if (is_virtual) set_peer_access(setup.devices, setup.links);
  if (is_virtual) run_late(setup.faults.late_replica >= 0);
  const std::vector<uint64_t> weights = train(setup, outcome);
  if (!setup.faults.any() && !cut) return outcome;
  if (is_virtual) set_peer_access(setup.devices, Links(setup.links.size()));
  if (is_virtual) run_late(false);
  outcome.same_as_without_faults = train_without_faults(setup) == weights;
  return outcome;
}

}  // namespace heddle::lab
