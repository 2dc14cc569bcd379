#include "heddle/parallel/replicas.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "heddle/core/device_span.h"
#include "heddle/core/tape.h"
#include "heddle/nn/modules/batch_norm2d.h"
#include "heddle/nn/ops.h"
#include "heddle/parallel/fingerprint.h"

namespace heddle {
namespace {

/// Whether work on `device` is being captured into a graph.
bool captures(Device device) {
  return device.type == DeviceType::kCuda && detail::is_capturing(current_stream(device));
}

}  // namespace

/// What the parameters' hooks hold on to: they live as long as the model, which may be longer than
/// the replicas do.
struct Replicas::Hooks {
  Replicas* replicas;
};

Replicas::Replicas(Module& model, const ModelFactory& make, const std::vector<Device>& devices,
                   ExchangeKind kind, const Links& links, int64_t bucket_bytes)
    : gradients_(devices, Exchange(kind, devices, links)),
      buffers_(devices, Exchange(kind, devices, links)),
      hooks_(std::make_shared<Hooks>(Hooks{this})) {
  models_.push_back(&model);
  for (size_t i = 1; i < devices.size(); ++i) models_.push_back(copies_.emplace_back(make()).get());
  for (size_t i = 0; i < devices.size(); ++i) {
    if (i > 0 || model.parameters().empty() || model.parameters()[0].device() != devices[0])
      models_[i]->to(devices[i]);
    Lane& lane = lanes_.emplace_back();
    lane.parameters = models_[i]->parameters();
    lane.no_loss = zeros({}, DType::kFloat32, devices[i]);
    for (const auto& [name, buffer] : models_[i]->named_buffers())
      (is_floating(buffer.dtype()) ? lane.averaged : lane.counted).push_back(buffer);
  }
  HEDDLE_CHECK(!lanes_[0].parameters.empty(), "DataParallel: {} has no parameters",
               model.describe());
  fill_buckets(bucket_bytes);
  set_hooks();
  replicate();
}

/// Gradients become ready from the last layer to the first, as a rule: buckets fill in that order.
/// The loss, which is there before any of them, goes along in the first bucket.
void Replicas::fill_buckets(int64_t bucket_bytes) {
  const std::vector<Tensor>& parameters = lanes_[0].parameters;
  places_.resize(parameters.size());
  FlatLayout layout;
  loss_place_ = layout.add(lanes_[0].no_loss);
  const auto close = [&] {
    if (layout.size() > 0) n_in_bucket_.push_back(layout.size());
    if (layout.size() > 0) gradients_.add_bucket(std::exchange(layout, {}));
  };
  for (size_t i = parameters.size(); i-- > 0;) {
    places_[i] = {static_cast<int>(n_in_bucket_.size()), layout.add(parameters[i])};
    if (layout.elements() * size_of(DType::kFloat32) >= bucket_bytes) close();
  }
  close();
  FlatLayout averaged;
  for (const Tensor& buffer : lanes_[0].averaged) averaged.add(buffer);
  if (averaged.size() > 0) buffer_bucket_ = buffers_.add_bucket(std::move(averaged));
}

void Replicas::set_hooks() {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const std::vector<Tensor>& parameters = lanes_[lane].parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].register_post_accumulate_grad_hook(
          [weak = std::weak_ptr<Hooks>(hooks_), lane, i](const Tensor& parameter) {
            if (const auto hooks = weak.lock())
              hooks->replicas->take_gradient(static_cast<int>(lane), i, parameter);
          });
    }
  }
}

void Replicas::replicate() {
  for (int stride = 1; stride < size(); stride *= 2)
    for (int from = 0; from < stride && from + stride < size(); ++from)
      model(from + stride).copy_from(model(from));
  note_versions();
}

void Replicas::note_versions() {
  for (Lane& lane : lanes_) {
    lane.versions.clear();
    for (const Tensor& parameter : lane.parameters) lane.versions.push_back(parameter.version());
  }
}

void Replicas::refresh() {
  const auto writes = [](const Lane& lane, size_t i) {
    return lane.parameters[i].version() - lane.versions[i];
  };
  bool apart = false;
  for (const Module* copy : models_) apart |= copy->is_training() != models_[0]->is_training();
  for (const Lane& lane : lanes_)
    for (size_t i = 0; i < lane.parameters.size(); ++i)
      apart |= writes(lane, i) != writes(lanes_[0], i);
  if (!apart) return;
  HEDDLE_CHECK(!captures(lanes_[0].parameters[0].device()),
               "DataParallel: replica 0 alone was written to since the last step, and a graph "
               "cannot hand it round: call replicate() first");
  replicate();
}

Replicas::Collecting::Collecting(Replicas& replicas) : replicas_(replicas) {
  for (int lane = 0; lane < replicas.size(); ++lane) {
    Lane& mine = replicas.lanes_[static_cast<size_t>(lane)];
    mine.collecting = true;
    for (size_t bucket = 0; bucket < replicas.n_in_bucket_.size() && mine.n_shards == 0; ++bucket)
      replicas.gradients_.pass(lane, static_cast<int>(bucket));
  }
}

Replicas::Collecting::~Collecting() {
  for (Lane& lane : replicas_.lanes_) lane.collecting = false;
}

void Replicas::begin_gradients(const std::vector<int64_t>& n_shards) {
  const NoGradGuard no_grad;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    lane.n_shards = n_shards[i];
    lane.earlier.clear();
    for (const Tensor& parameter : lane.parameters) {
      const Tensor gradient = parameter.grad();
      lane.earlier.push_back(gradient.defined() ? clone(gradient) : gradient);
      parameter.set_grad({});
    }
  }
  gradients_.begin(n_shards);
}

void Replicas::begin_gradient_shard(int lane, int64_t shard, const Tensor& loss, double share) {
  lanes_[static_cast<size_t>(lane)].shard = shard;
  for (size_t bucket = 0; bucket < n_in_bucket_.size(); ++bucket)
    gradients_.begin_shard(lane, shard, static_cast<int>(bucket));
  const bool has_loss = loss.defined();
  gradients_.put(lane, shard, 0, loss_place_,
                 has_loss ? reshape(loss.detach(), {}) : lanes_[static_cast<size_t>(lane)].no_loss,
                 has_loss ? share : 1.0);
}

void Replicas::take_gradient(int lane, size_t index, const Tensor& parameter) {
  const Lane& mine = lanes_[static_cast<size_t>(lane)];
  if (!mine.collecting) return;
  gradients_.put(lane, mine.shard, places_[index].bucket, places_[index].place, parameter.grad());
  parameter.set_grad({});
}

void Replicas::end_gradient_shard(int lane, int64_t shard) {
  for (size_t bucket = 0; bucket < n_in_bucket_.size(); ++bucket)
    gradients_.end_shard(lane, shard, static_cast<int>(bucket));
}

void Replicas::finish_gradients() {
  const NoGradGuard no_grad;
  gradients_.finish();
  for (int lane = 0; lane < size(); ++lane) {
    Lane& mine = lanes_[static_cast<size_t>(lane)];
    for (size_t i = 0; i < mine.parameters.size(); ++i) {
      const auto [bucket, place] = places_[i];
      const Tensor& earlier = mine.earlier[i];
      if (!gradients_.was_put(bucket, place)) {
        mine.parameters[i].set_grad(earlier);
        continue;
      }
      Tensor sum = gradients_.sum(lane, bucket, place);
      if (earlier.defined()) add_(sum, earlier);
      mine.parameters[i].set_grad(sum);
    }
    mine.earlier.clear();
  }
}

Tensor Replicas::summed_loss(int lane) const { return gradients_.sum(lane, 0, loss_place_); }

void Replicas::give_up() noexcept {
  gradients_.give_up();
  buffers_.give_up();
}

std::vector<Tensor> Replicas::all_buffers(const Lane& lane) const {
  std::vector<Tensor> result = lane.averaged;
  result.insert(result.end(), lane.counted.begin(), lane.counted.end());
  return result;
}

void Replicas::begin_buffers(const std::vector<int64_t>& n_shards) {
  for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i].n_shards = n_shards[i];
  buffers_.begin(n_shards);
}

void Replicas::begin_buffer_shard(int lane, int64_t shard) {
  const NoGradGuard no_grad;
  Lane& mine = lanes_[static_cast<size_t>(lane)];
  std::vector<Tensor> now = all_buffers(mine);
  if (shard == 0) mine.before.clear();
  for (size_t i = 0; i < now.size(); ++i) {
    if (shard == 0) mine.before.push_back(clone(now[i]));
    if (shard > 0) copy_(now[i], mine.before[i]);
  }
  if (buffer_bucket_ >= 0) buffers_.begin_shard(lane, shard, buffer_bucket_);
}

void Replicas::end_buffer_shard(int lane, int64_t shard, double share) {
  const Lane& mine = lanes_[static_cast<size_t>(lane)];
  for (size_t i = 0; i < mine.averaged.size(); ++i)
    buffers_.put(lane, shard, buffer_bucket_, static_cast<int>(i), mine.averaged[i], share);
}

const Replicas::Lane& Replicas::first_busy_lane() const {
  return *std::find_if(lanes_.begin(), lanes_.end(), [](const Lane& l) { return l.n_shards > 0; });
}

void Replicas::finish_buffers() {
  const NoGradGuard no_grad;
  for (int lane = 0; lane < size() && buffer_bucket_ >= 0; ++lane)
    if (lanes_[static_cast<size_t>(lane)].n_shards == 0) buffers_.pass(lane, buffer_bucket_);
  if (buffer_bucket_ >= 0) buffers_.finish();
  for (int lane = 0; lane < size(); ++lane) {
    Lane& mine = lanes_[static_cast<size_t>(lane)];
    for (size_t i = 0; i < mine.averaged.size(); ++i)
      copy_(mine.averaged[i], buffers_.sum(lane, buffer_bucket_, static_cast<int>(i)));
    for (size_t i = 0; i < mine.counted.size() && mine.n_shards == 0; ++i)
      copy_(mine.counted[i], first_busy_lane().counted[i]);
    mine.before.clear();
  }
}

void Replicas::pause_shard(int lane, int64_t shard) {
  Lane& mine = lanes_[static_cast<size_t>(lane)];
  if (mine.n_shards == 1) return;
  mine.steps.resize(static_cast<size_t>(mine.n_shards));
  mine.steps[static_cast<size_t>(shard)] = model(lane).steps();
}

void Replicas::resume_shard(int lane, int64_t shard) {
  Lane& mine = lanes_[static_cast<size_t>(lane)];
  mine.shard = shard;
  if (mine.n_shards > 1) model(lane).set_steps(mine.steps[static_cast<size_t>(shard)]);
}

std::vector<int64_t> Replicas::other_versions(int lane) const {
  std::set<std::string> of_norms;
  for (const auto& [name, module] : model(lane).named_modules())
    if (const auto* norm = dynamic_cast<const BatchNorm2d*>(module))
      for (const auto& [own, buffer] : norm->named_buffers())
        of_norms.insert(name.empty() ? own : name + "." + own);
  std::vector<int64_t> versions;
  for (const auto& [name, buffer] : model(lane).named_buffers())
    if (!of_norms.contains(name)) versions.push_back(buffer.version());
  return versions;
}

void Replicas::begin_alike_buffers(const std::vector<int64_t>& n_shards) {
  for (int lane = 0; lane < size(); ++lane) {
    Lane& mine = lanes_[static_cast<size_t>(lane)];
    mine.n_shards = n_shards[static_cast<size_t>(lane)];
    mine.other_versions = other_versions(lane);
  }
}

void Replicas::finish_alike_buffers() {
  const NoGradGuard no_grad;
  const std::vector<Tensor> moved = all_buffers(first_busy_lane());
  for (int lane = 0; lane < size(); ++lane) {
    const Lane& mine = lanes_[static_cast<size_t>(lane)];
    HEDDLE_CHECK(other_versions(lane) == mine.other_versions,
                 "DataParallel: with sync_batch_norm a buffer that is no BatchNorm2d's was written "
                 "to in forward, expected those of BatchNorm2d alone to move");
    std::vector<Tensor> buffers = all_buffers(mine);
    for (size_t i = 0; i < buffers.size() && mine.n_shards == 0; ++i) copy_(buffers[i], moved[i]);
  }
}

ExchangeTraffic Replicas::traffic() const {
  ExchangeTraffic both = gradients_.traffic();
  return both += buffers_.traffic();
}

std::vector<uint64_t> Replicas::fingerprints(int lane) const {
  std::vector<uint64_t> result;
  const Lane& mine = lanes_[static_cast<size_t>(lane)];
  for (const Tensor& parameter : mine.parameters) result.push_back(fingerprint(parameter));
  for (const Tensor& buffer : all_buffers(mine)) result.push_back(fingerprint(buffer));
  return result;
}

void Replicas::compare(const std::vector<std::vector<uint64_t>>& fingerprints) const {
  std::vector<Tensor> tensors = lanes_[0].parameters;
  for (const Tensor& buffer : all_buffers(lanes_[0])) tensors.push_back(buffer);
  for (size_t lane = 1; lane < fingerprints.size(); ++lane)
    for (size_t i = 0; i < tensors.size(); ++i)
      if (fingerprints[lane][i] != fingerprints[0][i])
        fail("DataParallel: {} of replica {} on {} has other bits than that of replica 0",
             tensors[i].name(), lane, lanes_[lane].parameters[0].device().to_string());
}

}  // namespace heddle
