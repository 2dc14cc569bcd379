#include "heddle/parallel/exchange.h"

#include <algorithm>
#include <cstring>

#include "heddle/core/flavour.h"
#include "heddle/kernels/tree_sum.h"
#include "heddle/parallel/exchange_runner.h"

namespace heddle {
namespace {

/// Logical replicas: scratch memory is not needed, since a sum can read the others' tensors.
class CpuRunner final : public ExchangeRunner {
 public:
  void run(const ExchangePlan& plan, std::span<Tensor> flats, std::span<const StreamRef>) override {
    const auto data = [&](int replica) {
      return flats[static_cast<size_t>(replica)].data<float>();
    };
    for (const ExchangePhase& phase : plan.phases) {
      for (const Transfer& transfer : phase.transfers) {
        if (transfer.slot >= 0) continue;
        std::memcpy(data(transfer.to) + transfer.first, data(transfer.from) + transfer.first,
                    static_cast<size_t>(transfer.count) * sizeof(float));
      }
      for (const Sum& sum : phase.sums) {
        TreeSumArgs args{{}, 0, data(sum.at) + sum.first, sum.count};
        for (const int slot : sum.inputs)
          args.x[args.n_inputs++] = data(source_of(phase, sum.at, slot)) + sum.first;
        cpu::tree_sum(args);
      }
    }
  }

 private:
  static int source_of(const ExchangePhase& phase, int at, int slot) {
    if (slot < 0) return at;
    for (const Transfer& transfer : phase.transfers)
      if (transfer.to == at && transfer.slot == slot) return transfer.from;
    fail("exchange: replica {} has nothing in slot {}", at, slot);
  }
};

std::unique_ptr<ExchangeRunner> make_runner(const std::vector<Device>& devices,
                                            const Links& links) {
  if (devices[0].type == DeviceType::kCpu) return std::make_unique<CpuRunner>();
#ifdef HEDDLE_WITH_CUDA
  return cuda::make_exchange_runner(devices, links);
#else
  (void)links;
  fail("exchange: {} in a heddle that was built without CUDA", devices[0].to_string());
#endif
}

}  // namespace

Exchange::Exchange(ExchangeKind kind, std::vector<Device> devices, const Links& links)
    : kind_(kind), devices_(std::move(devices)) {
  const int n = static_cast<int>(devices_.size());
  HEDDLE_CHECK(links.size() == n, "exchange: {} devices, links of {}", n, links.size());
  (void)plan_exchange(kind, n, 0);  // checks their number
  for (size_t i = 0; i < devices_.size(); ++i) {
    HEDDLE_CHECK(devices_[i].type == devices_[0].type, "exchange: {} and {} are of different kinds",
                 devices_[0].to_string(), devices_[i].to_string());
    HEDDLE_CHECK(devices_[i].type == DeviceType::kCpu ||
                     std::count(devices_.begin(), devices_.end(), devices_[i]) == 1,
                 "exchange: {} is given more than once", devices_[i].to_string());
  }
  traffic_ = ExchangeTraffic(n);
  runner_ = make_runner(devices_, links);
}

Exchange::~Exchange() = default;
Exchange::Exchange(Exchange&&) noexcept = default;
Exchange& Exchange::operator=(Exchange&&) noexcept = default;

void Exchange::check(std::span<Tensor> flats, std::span<const StreamRef> streams) const {
  HEDDLE_CHECK(flats.size() == devices_.size() && streams.size() == devices_.size(),
               "exchange: {} tensors and {} streams for {} devices", flats.size(), streams.size(),
               devices_.size());
  for (size_t i = 0; i < flats.size(); ++i) {
    const Tensor& flat = flats[i];
    HEDDLE_CHECK(flat.device() == devices_[i], "exchange: tensor {} is on {}, expected {}", i,
                 flat.device().to_string(), devices_[i].to_string());
    HEDDLE_CHECK(flat.dtype() == DType::kFloat32 && flat.dim() == 1 && flat.is_contiguous(),
                 "exchange: tensor {} is {} {}, expected a flat contiguous one of float32", i,
                 flat.dtype(), flat.shape());
    HEDDLE_CHECK(flat.numel() == flats[0].numel(),
                 "exchange: tensor {} has {} elements, tensor 0 has {}", i, flat.numel(),
                 flats[0].numel());
    HEDDLE_CHECK(streams[i].device() == devices_[i], "exchange: stream {} is of {}, expected {}", i,
                 streams[i].device().to_string(), devices_[i].to_string());
  }
}

const ExchangePlan& Exchange::plan_for(int64_t elements) {
  for (const ExchangePlan& plan : plans_)
    if (plan.elements == elements) return plan;
  plans_.push_back(plan_exchange(kind_, static_cast<int>(devices_.size()), elements));
  return plans_.back();
}

void Exchange::note_traffic(const ExchangePlan& plan) {
  ++traffic_.calls;
  traffic_.elements += plan.elements;
  for (const ExchangePhase& phase : plan.phases)
    for (const Transfer& transfer : phase.transfers)
      traffic_.bytes[static_cast<size_t>(transfer.from)][static_cast<size_t>(transfer.to)] +=
          transfer.count * size_of(DType::kFloat32);
}

void Exchange::all_reduce(std::span<Tensor> flats, std::span<const StreamRef> streams) {
  check(flats, streams);
  const ExchangePlan& plan = plan_for(flats[0].numel());
  if (plan.phases.empty()) return;
  runner_->run(plan, flats, streams);
  note_traffic(plan);
  for (const Tensor& flat : flats) flat.bump_version();
}

}  // namespace heddle
