#pragma once

#include <memory>
#include <span>
#include <vector>

#include "heddle/core/stream.h"
#include "heddle/core/tensor.h"
#include "heddle/parallel/exchange_plan.h"
#include "heddle/parallel/exchange_traffic.h"

namespace heddle {

class ExchangeRunner;

/// Sums tensors of several replicas, so that each replica has the sum, with the same bits on all.
/// Scratch and pinned memory are allocated at the first call and kept. Where a pair of devices has
/// no peer access, copies go through pinned host memory, and one line on standard error says so.
class Exchange {
 public:
  /// `devices` are different CUDA devices, or the CPU any number of times.
  /// Errors: others; links of another number of devices; more than 16 replicas.
  Exchange(ExchangeKind kind, std::vector<Device> devices, const Links& links);
  ~Exchange();
  Exchange(Exchange&&) noexcept;
  Exchange& operator=(Exchange&&) noexcept;

  ExchangeKind kind() const { return kind_; }
  const std::vector<Device>& devices() const { return devices_; }
  const ExchangeTraffic& traffic() const { return traffic_; }

  /// flats[d] is a flat contiguous float32 tensor on device d, of one length, that streams[d] may
  /// use. All is queued on these streams when it returns (on the CPU, where they are StreamRef{}:
  /// done), and what is queued there next finds the sum and may overwrite it.
  /// One thread at a time calls it.
  void all_reduce(std::span<Tensor> flats, std::span<const StreamRef> streams);

 private:
  void check(std::span<Tensor> flats, std::span<const StreamRef> streams) const;
  const ExchangePlan& plan_for(int64_t elements);
  void note_traffic(const ExchangePlan& plan);

  ExchangeKind kind_;
  std::vector<Device> devices_;
  std::vector<ExchangePlan> plans_;  // one a length that was seen: buckets repeat
  ExchangeTraffic traffic_;
  std::unique_ptr<ExchangeRunner> runner_;
};

}  // namespace heddle
