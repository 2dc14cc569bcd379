#include "heddle/apps/parallel_lab/simulate.h"

#include <algorithm>
#include <numeric>

#include "heddle/core/error.h"

namespace heddle::lab {
namespace {

constexpr int64_t kElementBytes = 4;

/// Layers whose gradients travel together, by their places in backward order.
struct Bucket {
  int64_t elements = 0;
  size_t last_layer = 0;
};

std::vector<Bucket> buckets_of(const Setup& setup) {
  std::vector<Bucket> buckets;
  bool open = false;
  for (size_t i = setup.layers.size(); i-- > 0;) {
    const int64_t elements = setup.layers[i].parameters;
    if (elements == 0) continue;
    if (!open) buckets.emplace_back();
    buckets.back().elements += elements;
    buckets.back().last_layer = i;
    open = buckets.back().elements * kElementBytes < setup.bucket_bytes;
  }
  return buckets;
}

class Simulation {
 public:
  explicit Simulation(const Setup& setup)
      : setup_(setup), n_(setup.images.size()), buckets_(buckets_of(setup)) {
    compute_.assign(n_, 0);
    copies_.assign(n_, 0);
    giving_.assign(n_, 0);
    out_.bytes.assign(n_, std::vector<int64_t>(n_));
    out_.sent.assign(n_, 0);
    out_.taken.assign(n_, 0);
    late_left_ = setup.late_replica >= 0 ? setup.late_seconds : 0;
    ready_.assign(n_, std::vector<double>(setup.layers.size()));
  }

  Outcome run() {
    for (size_t r = 0; r < n_; ++r) run_layers(r);
    out_.backward_end = *std::max_element(compute_.begin(), compute_.end());
    const double lost = lost_seconds();
    for (const Bucket& bucket : buckets_) {
      out_.bucket_elements.push_back(bucket.elements);
      if (lost >= 0 && lost_ready(bucket, lost)) continue;
      exchange(bucket);
      ++out_.exchanged_buckets;
    }
    if (lost >= 0) {
      end_at_loss(lost);
    } else {
      update();
    }
    for (const Bucket& bucket : buckets_)
      out_.least_bytes += least_bytes(static_cast<int>(n_), bucket.elements);
    return std::move(out_);
  }

 private:
  double speed(size_t replica) const {
    const bool slow = static_cast<int>(replica) == setup_.slow_replica;
    return setup_.flops_per_second / (slow ? setup_.slow_factor : 1.0);
  }

  void add(size_t replica, bool on_copy_stream, Work work, double begin, double end,
           const std::string& what) {
    out_.spans.push_back({static_cast<int>(replica), on_copy_stream, work, begin, end, what});
  }

  void run_layers(size_t r) {
    const auto images = static_cast<double>(setup_.images[r]);
    const auto run_layer = [&](const Layer& layer, Work work, double passes) {
      const double begin = compute_[r];
      compute_[r] += setup_.launch_seconds + passes * layer.flops_per_image * images / speed(r);
      add(r, false, work, begin, compute_[r], layer.name);
    };
    for (const Layer& layer : setup_.layers) run_layer(layer, Work::kForward, 1);
    forward_end_.push_back(compute_[r]);
    for (size_t i = setup_.layers.size(); i-- > 0;) {
      run_layer(setup_.layers[i], Work::kBackward, 2);
      ready_[r][i] = compute_[r];
    }
  }

  double lost_seconds() const {
    if (setup_.lost_replica < 0) return -1;
    const auto r = static_cast<size_t>(setup_.lost_replica);
    return (forward_end_[r] + compute_[r]) / 2;
  }

  /// Whether the lost replica never made this bucket ready.
  bool lost_ready(const Bucket& bucket, double lost) const {
    return ready_[static_cast<size_t>(setup_.lost_replica)][bucket.last_layer] > lost;
  }

  /// A copy of the replica's copy stream, and of the giver's way out, begins when both are free.
  void copy(size_t stream, size_t giver, double after, double bytes, const Link& link, Work work,
            const std::string& what) {
    double begin = std::max({copies_[stream], giving_[giver], after});
    if (work == Work::kCopy && static_cast<int>(stream) == setup_.late_replica && late_left_ > 0) {
      begin += late_left_;
      late_left_ = 0;
    }
    const double end = begin + link.latency + bytes / link.bytes_per_second;
    add(stream, true, work, begin, end, what);
    copies_[stream] = giving_[giver] = end;
    if (out_.first_copy < 0 || begin < out_.first_copy) out_.first_copy = begin;
  }

  void take(const Transfer& transfer, std::vector<double>& marked) {
    const auto from = static_cast<size_t>(transfer.from), to = static_cast<size_t>(transfer.to);
    const Link& link = setup_.links.at(transfer.from, transfer.to);
    const int64_t bytes = transfer.count * kElementBytes;
    const std::string what = fmt::format("{} to {}, {} bytes", from, to, bytes);
    if (!link.peer_access) {
      copy(from, from, marked[from], static_cast<double>(bytes), link, Work::kHostCopy,
           what + ", to the host");
      copy(to, to, copies_[from], static_cast<double>(bytes), link, Work::kHostCopy,
           what + ", from the host");
    } else {
      copy(to, from, marked[from], static_cast<double>(bytes), link, Work::kCopy, what);
    }
    out_.bytes[from][to] += bytes;
    out_.sent[from] += bytes;
    out_.taken[to] += bytes;
  }

  void exchange(const Bucket& bucket) {
    const ExchangePlan plan = plan_exchange(setup_.kind, static_cast<int>(n_), bucket.elements);
    for (size_t r = 0; r < n_; ++r) copies_[r] = std::max(copies_[r], ready_[r][bucket.last_layer]);
    for (const ExchangePhase& phase : plan.phases) {
      std::vector<double> marked = copies_;
      for (const Transfer& transfer : in_turns(phase)) take(transfer, marked);
      for (const Sum& sum : phase.sums) {
        const auto at = static_cast<size_t>(sum.at);
        const double begin = copies_[at];
        copies_[at] += setup_.launch_seconds +
                       static_cast<double>((static_cast<int64_t>(sum.inputs.size()) + 1) *
                                           sum.count * kElementBytes) /
                           setup_.memory_bytes_per_second;
        add(at, true, Work::kSum, begin, copies_[at], fmt::format("{} elements", sum.count));
      }
    }
    const std::vector<double> ends = copies_;
    for (const auto& [reader, source] : plan.last_reads)
      copies_[static_cast<size_t>(source)] =
          std::max(copies_[static_cast<size_t>(source)], ends[static_cast<size_t>(reader)]);
  }

  /// Each replica's first transfer, then each one's second, ...: they run side by side.
  std::vector<Transfer> in_turns(const ExchangePhase& phase) const {
    std::vector<Transfer> sorted = phase.transfers;
    std::vector<int> seen(n_);
    std::vector<std::pair<int, size_t>> order;
    for (size_t i = 0; i < sorted.size(); ++i)
      order.emplace_back(seen[static_cast<size_t>(sorted[i].to)]++, i);
    std::stable_sort(order.begin(), order.end());
    for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = phase.transfers[order[i].second];
    return sorted;
  }

  void update() {
    const int64_t parameters =
        std::accumulate(buckets_.begin(), buckets_.end(), int64_t{0},
                        [](int64_t sum, const Bucket& bucket) { return sum + bucket.elements; });
    const double seconds =  // Adam reads four arrays and writes three
        setup_.launch_seconds +
        static_cast<double>(7 * parameters * kElementBytes) / setup_.memory_bytes_per_second;
    out_.compute_seconds = out_.backward_end + seconds;
    for (size_t r = 0; r < n_; ++r) {
      const double begin = n_ == 1 ? compute_[r] : std::max(compute_[r], copies_[r]);
      if (begin > compute_[r])
        add(r, false, Work::kWait, compute_[r], begin, "waits for the exchange");
      add(r, false, Work::kUpdate, begin, begin + seconds, "Adam");
      out_.step_seconds = std::max(out_.step_seconds, begin + seconds);
    }
    out_.exposed_seconds = out_.step_seconds - out_.compute_seconds;
  }

  /// Nobody updates: the others end what is queued, and the step fails.
  void end_at_loss(double lost) {
    std::erase_if(out_.spans, [&](const Span& span) {
      return span.replica == setup_.lost_replica && span.begin >= lost && !span.on_copy_stream;
    });
    for (Span& span : out_.spans) {
      if (span.replica == setup_.lost_replica && !span.on_copy_stream)
        span.end = std::min(span.end, lost);
      out_.step_seconds = std::max(out_.step_seconds, span.end);
    }
    out_.compute_seconds = out_.backward_end;
  }

  const Setup& setup_;
  size_t n_;
  std::vector<Bucket> buckets_;
  std::vector<double> compute_, copies_, giving_;  // when each stream, and way out, is free
  std::vector<double> forward_end_;
  std::vector<std::vector<double>> ready_;  // (replica, layer): when its gradient is
  double late_left_ = 0;
  Outcome out_;
};

}  // namespace

Outcome simulate(const Setup& setup) {
  HEDDLE_CHECK(!setup.images.empty() && setup.links.size() == static_cast<int>(setup.images.size()),
               "parallel_lab: {} replicas, links of {}", setup.images.size(), setup.links.size());
  return Simulation(setup).run();
}

const char* work_name(Work work) {
  switch (work) {
    case Work::kForward:
      return "forward";
    case Work::kBackward:
      return "backward";
    case Work::kCopy:
      return "peer copy";
    case Work::kHostCopy:
      return "copy through the host";
    case Work::kSum:
      return "sum";
    case Work::kUpdate:
      return "update";
    case Work::kWait:
      return "wait";
    case Work::kExchange:
      return "exchange";
    case Work::kDelay:
      return "injected delay";
  }
  fail("parallel_lab: no work {}", static_cast<int>(work));
}

}  // namespace heddle::lab
