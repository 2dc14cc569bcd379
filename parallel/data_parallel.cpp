// Forward and backward over replicas. The caller's thread plans, the lanes compute, and what they
// share is in two Reducers: one of gradients, whose buckets fill from hooks of the parameters while
// backward runs, and one of the buffers that training moves. A lane computes its shards one after
// the other; where batch-norms are synchronised, in turns on a thread each (ShardMeeting).
#include "heddle/parallel/data_parallel.h"

#include <algorithm>

#include "heddle/core/tape.h"
#include "heddle/kernels/batch_norm_parts.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/first_row.h"
#include "heddle/parallel/gather.h"
#include "heddle/parallel/lanes.h"
#include "heddle/parallel/replicas.h"
#include "heddle/parallel/shard_meeting.h"
#include "heddle/parallel/shard_plan.h"
#include "heddle/parallel/table_exchange.h"

namespace heddle {
namespace {

/// One forward over a batch, and what its backward needs.
struct Pass {
  ShardPlan plan;
  bool synchronised = false;   // its batch-norms, and so its backward too
  bool moves_buffers = false;  // of each shard, which are then averaged
  int64_t step = 0;
  std::vector<Tensor> inputs, outputs;  // by shard

  int64_t n_samples() const { return plan.n_samples; }
};

Tensor rows_of(const Tensor& x, Range rows, Device device) {
  const NoGradGuard no_grad;
  const Tensor whole = x.detach();
  return to(rows.size == x.size(0) ? whole : narrow(whole, 0, rows.begin, rows.size), device);
}

ExchangeKind exchange_of(const DataParallelOptions& options, const std::vector<Device>& devices) {
  if (options.exchange) return *options.exchange;
  return choose_exchange(options.links ? *options.links : Links::measure(devices),
                         options.bucket_bytes / size_of(DType::kFloat32));
}

int64_t checked_shards(const DataParallelOptions& options, size_t n_devices) {
  const int64_t n = options.shards > 0 ? options.shards : static_cast<int64_t>(n_devices);
  HEDDLE_CHECK(!options.sync_batch_norm || n <= BatchNormMergeArgs::kMaxParts,
               "DataParallel: sync_batch_norm with {} shards, expected at most {}", n,
               BatchNormMergeArgs::kMaxParts);
  return n;
}

std::vector<int64_t> checked_split(const DataParallelOptions& options, size_t n_devices) {
  if (options.split.empty()) return {};
  HEDDLE_CHECK(options.split.size() == n_devices,
               "DataParallel: a split of {} parts, expected {}, one a device", options.split.size(),
               n_devices);
  HEDDLE_CHECK(options.shards == 0 || options.shards == static_cast<int64_t>(n_devices),
               "DataParallel: a split with {} shards, expected one a device", options.shards);
  (void)ShardPlan(0, options.split);  // checks them
  return options.split;
}

int64_t checked_rows(const Tensor& x) {
  HEDDLE_CHECK(x.dim() >= 1 && x.size(0) >= 1, "DataParallel: x is {}, expected at least one row",
               x.shape());
  return x.size(0);
}

std::vector<int64_t> shards_by_lane(const ShardPlan& plan) {
  std::vector<int64_t> result;
  for (const Range& run : plan.devices) result.push_back(run.size);
  return result;
}

}  // namespace

struct DataParallel::State {
  State(Module& model, const ModelFactory& make, const std::vector<Device>& devices,
        const DataParallelOptions& options)
      : n_shards(checked_shards(options, devices.size())),
        split(checked_split(options, devices.size())),
        sync_batch_norm(options.sync_batch_norm),
        exchange(exchange_of(options, devices)),
        replicas(model, make, devices, exchange, options.links.value_or(Links::of(devices)),
                 options.bucket_bytes),
        tables(exchange, devices, options.links.value_or(Links::of(devices))),
        meeting(
            [this](std::vector<Tensor>& all, const std::vector<int>& of) { tables.sum(all, of); },
            [this](int lane, int64_t shard) { replicas.pause_shard(lane, shard); },
            [this](int lane, int64_t shard) { replicas.resume_shard(lane, shard); }),
        lanes(devices) {}

  Device device(int lane) const { return lanes.devices()[static_cast<size_t>(lane)]; }

  ShardPlan plan(int64_t n_rows) const {
    return split.empty() ? ShardPlan(n_rows, n_shards, lanes.size()) : ShardPlan(n_rows, split);
  }
  Pass begin_forward(int64_t n_rows);
  void end_forward(const Pass& pass);
  Tensor forward_shard(Pass& pass, int lane, int64_t shard, const Tensor& x);
  /// Calls body(lane, shard) for all shards, on their lanes. Where one fails, no exchange is left
  /// under way.
  template <class Body>
  void compute(const Pass& pass, const Body& body);
  /// Calls body(shard) for the shards of a lane.
  template <class Body>
  void for_each_shard(const Pass& pass, int lane, const Body& body) const {
    const Range run = pass.plan.devices[static_cast<size_t>(lane)];
    for (int64_t shard = run.begin; shard < run.end(); ++shard) body(shard);
  }
  std::vector<Tensor> scattered(const Tensor& x, const Pass& pass) const;
  std::vector<Tensor> cut(const std::vector<BatchPart>& parts, Tensor BatchPart::*which,
                          const Pass& pass) const;
  Queued forward_backward(Pass pass, const std::vector<Tensor>& inputs,
                          const std::vector<Tensor>& targets, const LossFunction& loss,
                          GradScaler* scaler);
  Result result_of(const Queued& queued) const;
  Tensor backward(Pass& pass, const Tensor& gradient, bool wants_dx);

  int64_t n_shards;
  std::vector<int64_t> split;
  bool sync_batch_norm;
  int64_t step = 0;  // of the next forward
  ExchangeKind exchange;
  Replicas replicas;
  TableExchange tables;
  ShardMeeting meeting;
  Lanes lanes;  // the last: its threads go before what they use
};

/// By the caller's thread, before any lane computes: a copy from the first device would else wait
/// for what its lane has queued by then.
std::vector<Tensor> DataParallel::State::scattered(const Tensor& x, const Pass& pass) const {
  std::vector<Tensor> parts(pass.outputs.size());
  for (int lane = 0; lane < lanes.size(); ++lane)
    for_each_shard(pass, lane, [&](int64_t shard) {
      const auto index = static_cast<size_t>(shard);
      parts[index] = rows_of(x, pass.plan.shards[index], device(lane));
    });
  return parts;
}

/// The shards of parts that lie on their devices.
std::vector<Tensor> DataParallel::State::cut(const std::vector<BatchPart>& parts,
                                             Tensor BatchPart::*which, const Pass& pass) const {
  std::vector<Tensor> shards(pass.outputs.size());
  for (int lane = 0; lane < lanes.size(); ++lane) {
    const BatchPart& part = parts[static_cast<size_t>(lane)];
    for_each_shard(pass, lane, [&](int64_t shard) {
      const auto index = static_cast<size_t>(shard);
      Range rows = pass.plan.shards[index];
      rows.begin -= part.first_row;
      HEDDLE_CHECK(rows.begin >= 0 && rows.end() <= part.size(),
                   "DataParallel: device {} has rows {} to {} of the batch, but computes {} to {}",
                   lane, part.first_row, part.first_row + part.size(), part.first_row + rows.begin,
                   part.first_row + rows.end());
      shards[index] = rows_of(part.*which, rows, device(lane));
    });
  }
  return shards;
}

Pass DataParallel::State::begin_forward(int64_t n_rows) {
  replicas.refresh();
  const ShardPlan plan = this->plan(n_rows);
  const auto n = static_cast<size_t>(
      std::count_if(plan.shards.begin(), plan.shards.end(), [](Range r) { return r.size > 0; }));
  const bool training = replicas.model(0).is_training();
  Pass pass{.plan = plan,
            .synchronised = training && sync_batch_norm,
            .moves_buffers = training && !sync_batch_norm && n_shards > 1,
            .step = step,
            .inputs = std::vector<Tensor>(n),
            .outputs = std::vector<Tensor>(n)};
  if (training) ++step;
  if (pass.moves_buffers) replicas.begin_buffers(shards_by_lane(pass.plan));
  if (pass.synchronised) replicas.begin_alike_buffers(shards_by_lane(pass.plan));
  return pass;
}

void DataParallel::State::end_forward(const Pass& pass) {
  if (pass.moves_buffers) replicas.finish_buffers();
  if (pass.synchronised) replicas.finish_alike_buffers();
}

template <class Body>
void DataParallel::State::compute(const Pass& pass, const Body& body) try {
  if (!pass.synchronised) {
    lanes.run(
        [&](int lane) { for_each_shard(pass, lane, [&](int64_t shard) { body(lane, shard); }); });
    return;
  }
  const std::vector<int64_t> by_lane = shards_by_lane(pass.plan);
  tables.begin();
  meeting.begin(by_lane);
  lanes.run(by_lane, [&](int lane, int64_t thread) {
    meeting.attend(lane, thread, [&] {
      body(lane, pass.plan.devices[static_cast<size_t>(lane)].begin + thread);
    });
  });
} catch (...) {
  replicas.give_up();
  throw;
}

Tensor DataParallel::State::forward_shard(Pass& pass, int lane, int64_t shard, const Tensor& x) {
  const int64_t in_lane = pass.plan.number_in_device(lane, shard);
  if (pass.moves_buffers) replicas.begin_buffer_shard(lane, in_lane);
  const FirstRow row(pass.plan.shards[static_cast<size_t>(shard)].begin);
  replicas.model(lane).set_step(pass.step);  // all shards draw as in one step
  Tensor y = replicas.model(lane)(x);
  HEDDLE_CHECK(y.dim() >= 1 && y.size(0) == x.size(0),
               "DataParallel: the model made {} of {}, expected as many rows", y.shape(),
               x.shape());
  if (pass.moves_buffers) replicas.end_buffer_shard(lane, in_lane, pass.plan.share(shard));
  return y;
}

Tensor DataParallel::State::backward(Pass& pass, const Tensor& gradient, bool wants_dx) {
  replicas.begin_gradients(shards_by_lane(pass.plan));
  const std::vector<Tensor> dy = scattered(gradient, pass);
  const Replicas::Collecting collecting(replicas);
  compute(pass, [&](int lane, int64_t shard) {
    const auto index = static_cast<size_t>(shard);
    const int64_t in_lane = pass.plan.number_in_device(lane, shard);
    replicas.begin_gradient_shard(lane, in_lane, {}, 0.0);
    pass.outputs[index].backward(dy[index]);
    replicas.end_gradient_shard(lane, in_lane);
  });
  replicas.finish_gradients();
  if (!wants_dx) return {};
  std::vector<Tensor> parts;
  for (const Tensor& input : pass.inputs) parts.push_back(input.grad());
  return gather(parts, device(0));
}

DataParallel::DataParallel(Module& model, const ModelFactory& make,
                           const std::vector<Device>& devices, const DataParallelOptions& options)
    : state_(std::make_shared<State>(model, make, devices, options)) {}

DataParallel::~DataParallel() = default;

Tensor DataParallel::operator()(const Tensor& x) {
  const std::shared_ptr<State> state = state_;
  const auto pass = std::make_shared<Pass>(state->begin_forward(checked_rows(x)));
  const Tensor anchor = parameters().front();  // what makes the output require grad
  const bool wants_dx = needs_grad({x}), records = needs_grad({x, anchor});
  const std::vector<Tensor> parts = state->scattered(x, *pass);
  state->compute(*pass, [&](int lane, int64_t shard) {
    const auto index = static_cast<size_t>(shard);
    Tensor part = parts[index].detach();
    if (wants_dx) part.set_requires_grad();
    pass->outputs[index] = state->forward_shard(*pass, lane, shard, part);
    if (wants_dx) pass->inputs[index] = part;
  });
  state->end_forward(*pass);
  Tensor y = gather(pass->outputs, state->device(0));
  if (!records) return y;
  record("data_parallel", y, {x, anchor},
         [state, pass, wants_dx, from = x.device()](const Tensor& dy) {
           const Tensor dx = state->backward(*pass, dy, wants_dx);
           return Gradients{wants_dx ? to(dx, from) : dx, Tensor()};
         });
  return y;
}

DataParallel::Result DataParallel::forward_backward(const Tensor& x, const Tensor& labels,
                                                    const LossFunction& loss, GradScaler* scaler) {
  HEDDLE_CHECK(labels.dim() >= 1 && labels.size(0) == x.size(0),
               "DataParallel: labels are {} for x {}", labels.shape(), x.shape());
  Pass pass = state_->begin_forward(checked_rows(x));
  const std::vector<Tensor> inputs = state_->scattered(x, pass);
  const std::vector<Tensor> targets = state_->scattered(labels, pass);
  return state_->result_of(
      state_->forward_backward(std::move(pass), inputs, targets, loss, scaler));
}

DataParallel::Result DataParallel::forward_backward(const std::vector<BatchPart>& parts,
                                                    const LossFunction& loss, GradScaler* scaler) {
  return state_->result_of(queue_forward_backward(parts, loss, scaler));
}

DataParallel::Queued DataParallel::queue_forward_backward(const std::vector<BatchPart>& parts,
                                                          const LossFunction& loss,
                                                          GradScaler* scaler) {
  int64_t n_rows = 0;
  for (const BatchPart& part : parts) n_rows += part.size();
  HEDDLE_CHECK(static_cast<int>(parts.size()) == size() && n_rows >= 1,
               "DataParallel: {} rows in {} parts, expected a part for each of {} devices", n_rows,
               parts.size(), size());
  Pass pass = state_->begin_forward(n_rows);
  const std::vector<Tensor> inputs = state_->cut(parts, &BatchPart::images, pass);
  const std::vector<Tensor> targets = state_->cut(parts, &BatchPart::labels, pass);
  return state_->forward_backward(std::move(pass), inputs, targets, loss, scaler);
}

double DataParallel::Queued::mean_loss() const {
  double sum = 0.0;
  int64_t n_rows = 0;
  for (const Shard& shard : shards) {
    sum += shard.loss.item() * static_cast<double>(shard.labels.size(0));
    n_rows += shard.labels.size(0);
  }
  return sum / static_cast<double>(n_rows);
}

std::vector<int64_t> DataParallel::rows_by_device(int64_t n) const {
  const ShardPlan plan = state_->plan(n);
  std::vector<int64_t> rows;
  for (const Range& run : plan.devices) {
    rows.push_back(0);
    for (int64_t shard = run.begin; shard < run.end(); ++shard)
      rows.back() += plan.shards[static_cast<size_t>(shard)].size;
  }
  return rows;
}

DataParallel::Queued DataParallel::State::forward_backward(Pass pass,
                                                           const std::vector<Tensor>& inputs,
                                                           const std::vector<Tensor>& targets,
                                                           const LossFunction& loss,
                                                           GradScaler* scaler) {
  Queued queued;
  queued.shards.resize(pass.outputs.size());
  std::vector<Tensor> scales(static_cast<size_t>(lanes.size()));
  for (int lane = 0; lane < lanes.size() && scaler != nullptr; ++lane)
    scales[static_cast<size_t>(lane)] = scaler->scale_on(device(lane));
  replicas.begin_gradients(shards_by_lane(pass.plan));
  const Replicas::Collecting collecting(replicas);
  compute(pass, [&](int lane, int64_t shard) {
    const auto index = static_cast<size_t>(shard);
    const int64_t in_lane = pass.plan.number_in_device(lane, shard);
    const Tensor y = forward_shard(pass, lane, shard, inputs[index]);
    const Tensor value = loss(y, targets[index]);
    HEDDLE_CHECK(value.numel() == 1, "DataParallel: the loss is {}, expected one number",
                 value.shape());
    queued.shards[index] = {y.detach(), targets[index], value.detach()};
    const double share = pass.plan.share(shard);
    replicas.begin_gradient_shard(lane, in_lane, value, share);
    const Tensor weighed = share == 1.0 ? value : value * share;
    const Tensor& scale = scales[static_cast<size_t>(lane)];
    (scale.defined() ? to(weighed, DType::kFloat32) * scale : weighed).backward();
    replicas.end_gradient_shard(lane, in_lane);
  });
  replicas.finish_gradients();
  end_forward(pass);
  for (int lane = 0; lane < lanes.size(); ++lane)
    queued.mean_losses.push_back(replicas.summed_loss(lane));
  return queued;
}

DataParallel::Result DataParallel::State::result_of(const Queued& queued) const {
  std::vector<Tensor> outputs;
  for (const Queued::Shard& shard : queued.shards) outputs.push_back(shard.output);
  return {queued.mean_loss(), gather(outputs, device(0))};
}

int DataParallel::size() const { return state_->lanes.size(); }
int64_t DataParallel::shards() const { return state_->n_shards; }
ExchangeKind DataParallel::exchange() const { return state_->exchange; }
const std::vector<Device>& DataParallel::devices() const { return state_->lanes.devices(); }
ExchangeTraffic DataParallel::traffic() const {
  ExchangeTraffic all = state_->replicas.traffic();
  return all += state_->tables.traffic();
}
Module& DataParallel::replica(int index) { return state_->replicas.model(index); }
std::vector<Tensor> DataParallel::parameters() const {
  return state_->replicas.model(0).parameters();
}

void DataParallel::train(bool training) {
  for (int i = 0; i < size(); ++i) replica(i).train(training);
}

void DataParallel::set_step(int64_t step) { state_->step = step; }

void DataParallel::zero_grad() {
  for (int i = 0; i < size(); ++i) replica(i).zero_grad();
}

void DataParallel::for_each_replica(const std::function<void(int, Module&)>& function) {
  state_->lanes.run([&](int lane) { function(lane, replica(lane)); });
}

void DataParallel::replicate() { state_->replicas.replicate(); }
void DataParallel::refresh() { state_->replicas.refresh(); }

void DataParallel::check_replicas() {
  std::vector<std::vector<uint64_t>> prints(static_cast<size_t>(size()));
  state_->lanes.run(
      [&](int lane) { prints[static_cast<size_t>(lane)] = state_->replicas.fingerprints(lane); });
  state_->replicas.compare(prints);
}

}  // namespace heddle
