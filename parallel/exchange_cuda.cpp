#include "heddle/parallel/exchange_runner.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>

#include "heddle/core/buffer.h"
#include "heddle/core/cuda_check.h"
#include "heddle/core/device_guard.h"
#include "heddle/core/event.h"
#include "heddle/core/pinned_buffer.h"
#include "heddle/kernels/tree_sum.h"

namespace heddle {
namespace {

int64_t bytes_of(int64_t elements) { return elements * static_cast<int64_t>(sizeof(float)); }

/// One line a process about pairs without peer access.
void tell_of_host_copies(const std::vector<Device>& devices, const Links& links) {
  static std::atomic_flag told;
  int pairs = 0;
  std::string first;
  for (int a = 0; a < links.size(); ++a) {
    for (int b = a + 1; b < links.size(); ++b) {
      if (links.at(a, b).peer_access && links.at(b, a).peer_access) continue;
      if (pairs++ == 0)
        first = devices[static_cast<size_t>(a)].to_string() + " and " +
                devices[static_cast<size_t>(b)].to_string();
    }
  }
  if (pairs == 0 || told.test_and_set()) return;
  fmt::print(
      stderr,
      "exchange: {} of {} pairs of devices have no peer access (the first: {}); their copies "
      "go through pinned host memory\n",
      pairs, links.size() * (links.size() - 1) / 2, first);
}

/// Each replica takes what it needs, by copies on its own stream. Two kinds of waits order it all:
/// a phase's readers wait for what its sources had done when it began, and at the end sources wait
/// for their last readers. Scratch memory is the taker's alone; a place in pinned memory is written
/// on the giver's stream and read on the taker's.
class CudaRunner final : public ExchangeRunner {
 public:
  CudaRunner(const std::vector<Device>& devices, const Links& links) : links_(links) {
    for (const Device device : devices) {
      events_.emplace_back(device);
      scratch_.emplace_back();
    }
    tell_of_host_copies(devices, links);
  }

  ~CudaRunner() override {
    for (size_t i = 0; i < streams_.size(); ++i) {
      try {
        for (const PinnedBuffer& buffer : staging_) buffer.record_use(streams_[i]);
      } catch (const std::exception&) {
        // The device has failed: nothing runs there any more that could read the memory.
      }
    }
  }

  void run(const ExchangePlan& plan, std::span<Tensor> flats,
           std::span<const StreamRef> streams) override {
    flats_ = flats;
    use_streams(streams);
    try {
      queue(plan);
    } catch (...) {
      settle();
      throw;
    }
  }

 private:
  void queue(const ExchangePlan& plan) {
    reserve_scratch(plan);
    reserve_staging(plan);
    size_t staged = 0;
    for (const ExchangePhase& phase : plan.phases) {
      size_t taken = staged;
      give_through_host(phase, staged);
      mark(phase);
      take(plan, phase, taken);
      for (const Sum& sum : phase.sums) add(plan, sum);
    }
    wait_for_readers(plan);
  }

  /// Where a device has failed, what the others were given for its sake is waited for. The one that
  /// has failed says so at once.
  void settle() const noexcept {
    for (const StreamRef stream : streams_) {
      (void)cudaStreamSynchronize(stream.get());
      (void)cudaGetLastError();
    }
  }

  StreamRef stream(int replica) const { return streams_[static_cast<size_t>(replica)]; }
  float* flat(int replica) const { return flats_[static_cast<size_t>(replica)].data<float>(); }
  float* scratch(const ExchangePlan& plan, int replica, int slot) const {
    return scratch_[static_cast<size_t>(replica)].as<float>() + slot * plan.scratch_stride;
  }
  bool through_host(const Transfer& transfer) const {
    return !links_.at(transfer.from, transfer.to).peer_access;
  }

  /// What was queued on other streams for an earlier call comes first.
  void use_streams(std::span<const StreamRef> streams) {
    if (std::equal(streams.begin(), streams.end(), streams_.begin(), streams_.end())) return;
    for (const StreamRef before : streams_)
      for (const StreamRef now : streams) now.wait(before);
    streams_.assign(streams.begin(), streams.end());
    for (Buffer& buffer : scratch_) buffer = Buffer();
  }

  void reserve_scratch(const ExchangePlan& plan) {
    for (size_t i = 0; i < scratch_.size(); ++i) {
      const int64_t bytes = bytes_of(plan.slots[i] * plan.scratch_stride);
      if (scratch_[i].bytes() < bytes) scratch_[i] = Buffer(bytes, streams_[i]);
    }
  }

  void reserve_staging(const ExchangePlan& plan) {
    size_t place = 0;
    for (const ExchangePhase& phase : plan.phases) {
      for (const Transfer& transfer : phase.transfers) {
        if (!through_host(transfer)) continue;
        if (place == staging_.size()) staging_.emplace_back();
        PinnedBuffer& buffer = staging_[place++];
        if (buffer.bytes() >= bytes_of(transfer.count)) continue;
        if (buffer.data() != nullptr)
          for (const StreamRef user : streams_) buffer.record_use(user);
        buffer = PinnedBuffer(bytes_of(transfer.count));
      }
    }
  }

  void give_through_host(const ExchangePhase& phase, size_t& place) {
    for (const Transfer& transfer : phase.transfers) {
      if (!through_host(transfer)) continue;
      copy(staging_[place++].data(), flat(transfer.from) + transfer.first, transfer.count,
           cudaMemcpyDeviceToHost, stream(transfer.from));
    }
  }

  /// What the sources have done so far.
  void mark(const ExchangePhase& phase) {
    std::vector<bool> gives(events_.size());
    for (const Transfer& transfer : phase.transfers)
      gives[static_cast<size_t>(transfer.from)] = true;
    for (size_t i = 0; i < events_.size(); ++i)
      if (gives[i]) events_[i].record(streams_[i]);
  }

  void take(const ExchangePlan& plan, const ExchangePhase& phase, size_t place) {
    for (const Transfer& transfer : phase.transfers) {
      const StreamRef taker = stream(transfer.to);
      taker.wait(events_[static_cast<size_t>(transfer.from)]);
      float* target = transfer.slot >= 0 ? scratch(plan, transfer.to, transfer.slot)
                                         : flat(transfer.to) + transfer.first;
      if (through_host(transfer)) {
        copy(target, staging_[place++].data(), transfer.count, cudaMemcpyHostToDevice, taker);
        continue;
      }
      // cudaMemcpyPeerAsync is not for graphs. A plain copy finds both devices by the addresses.
      copy(target, flat(transfer.from) + transfer.first, transfer.count, cudaMemcpyDeviceToDevice,
           taker);
    }
  }

  static void copy(void* target, const void* source, int64_t count, cudaMemcpyKind kind,
                   StreamRef stream) {
    const DeviceGuard guard(stream.device());
    HEDDLE_CUDA_CHECK(
        cudaMemcpyAsync(target, source, static_cast<size_t>(bytes_of(count)), kind, stream.get()));
  }

  void add(const ExchangePlan& plan, const Sum& sum) {
    TreeSumArgs args{{}, 0, flat(sum.at) + sum.first, sum.count};
    for (const int slot : sum.inputs)
      args.x[args.n_inputs++] = slot < 0 ? args.y : scratch(plan, sum.at, slot);
    const DeviceGuard guard(stream(sum.at).device());
    cuda::tree_sum(args, stream(sum.at));
  }

  void wait_for_readers(const ExchangePlan& plan) {
    for (size_t i = 0; i < events_.size(); ++i) events_[i].record(streams_[i]);
    for (const auto& [reader, source] : plan.last_reads)
      stream(source).wait(events_[static_cast<size_t>(reader)]);
  }

  Links links_;
  std::vector<Event> events_;    // one a replica
  std::vector<Buffer> scratch_;  // one a replica
  std::vector<StreamRef> streams_;
  std::vector<PinnedBuffer> staging_;  // one a transfer without peer access, in the plan's order
  std::span<Tensor> flats_;            // while run() runs
};

}  // namespace

std::unique_ptr<ExchangeRunner> cuda::make_exchange_runner(const std::vector<Device>& devices,
                                                           const Links& links) {
  return std::make_unique<CudaRunner>(devices, links);
}

}  // namespace heddle
