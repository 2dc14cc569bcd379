#include "heddle/parallel/exchange_plan.h"

#include <algorithm>
#include <set>

#include "heddle/core/error.h"
#include "heddle/kernels/tree_sum.h"

namespace heddle {
namespace {

constexpr int64_t kPartAlignment = 4;  // elements: 16 bytes

struct Range {
  int64_t first;
  int64_t count;
};

/// Part `index` of `elements` in `parts`; the last ones may be short or empty.
Range part(int64_t elements, int parts, int index) {
  const int64_t vectors = (elements + kPartAlignment - 1) / kPartAlignment;
  const int64_t each = (vectors + parts - 1) / parts * kPartAlignment;
  const int64_t first = std::min(elements, each * index);
  return {first, std::min(elements, first + each) - first};
}

void add_transfer(ExchangePhase& phase, int from, int to, Range range, int slot = -1) {
  if (range.count > 0) phase.transfers.push_back({from, to, range.first, range.count, slot});
}

/// `at` takes the range from all others and sums it by their places.
void add_tree(ExchangePhase& phase, int at, int replicas, Range range) {
  if (range.count == 0) return;
  Sum sum{at, range.first, range.count, {}};
  for (int from = 0; from < replicas; ++from)
    sum.inputs.push_back(from == at ? -1 : from < at ? from : from - 1);
  for (int away = 1; away < replicas; ++away) {  // no two takers from one giver at a time
    const int from = (at + away) % replicas;
    add_transfer(phase, from, at, range, sum.inputs[static_cast<size_t>(from)]);
  }
  phase.sums.push_back(std::move(sum));
}

void plan_direct(ExchangePlan& plan) {
  const int n = plan.replicas;
  ExchangePhase collect, share;
  for (int at = 0; at < n; ++at) {
    add_tree(collect, at, n, part(plan.elements, n, at));
    for (int away = 1; away < n; ++away) {  // each from another neighbour at a time
      const int from = (at + away) % n;
      add_transfer(share, from, at, part(plan.elements, n, from));
    }
  }
  plan.scratch_stride = part(plan.elements, n, 0).count;
  plan.slots.assign(static_cast<size_t>(n), n - 1);
  plan.phases = {std::move(collect), std::move(share)};
}

void plan_gather(ExchangePlan& plan) {
  const Range all{0, plan.elements};
  ExchangePhase collect, share;
  add_tree(collect, 0, plan.replicas, all);
  for (int to = 1; to < plan.replicas; ++to) add_transfer(share, 0, to, all);
  plan.scratch_stride = plan.elements;
  plan.slots.assign(static_cast<size_t>(plan.replicas), 0);
  plan.slots[0] = plan.replicas - 1;
  plan.phases = {std::move(collect), std::move(share)};
}

void plan_ring(ExchangePlan& plan) {
  const int n = plan.replicas;
  const auto part_of = [&](int index) { return part(plan.elements, n, (index + 2 * n) % n); };
  for (int round = 0; round < n - 1; ++round) {
    ExchangePhase phase;
    for (int at = 0; at < n; ++at) {
      const Range range = part_of(at - 1 - round);
      add_transfer(phase, (at + n - 1) % n, at, range, 0);
      if (range.count > 0) phase.sums.push_back({at, range.first, range.count, {0, -1}});
    }
    plan.phases.push_back(std::move(phase));
  }
  for (int round = 0; round < n - 1; ++round) {
    ExchangePhase phase;
    for (int at = 0; at < n; ++at) add_transfer(phase, (at + n - 1) % n, at, part_of(at - round));
    plan.phases.push_back(std::move(phase));
  }
  plan.scratch_stride = part(plan.elements, n, 0).count;
  plan.slots.assign(static_cast<size_t>(n), 1);
}

/// Reads whose source does not take anything from the reader in a later phase.
void find_last_reads(ExchangePlan& plan) {
  std::set<std::pair<int, int>> open;
  for (const ExchangePhase& phase : plan.phases) {
    for (const Transfer& transfer : phase.transfers) open.erase({transfer.from, transfer.to});
    for (const Transfer& transfer : phase.transfers) open.insert({transfer.to, transfer.from});
  }
  plan.last_reads.assign(open.begin(), open.end());
}

}  // namespace

std::string_view exchange_kind_name(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::kDirect:
      return "direct";
    case ExchangeKind::kRing:
      return "ring";
    case ExchangeKind::kGather:
      return "gather";
  }
  fail("exchange: no kind {}", static_cast<int>(kind));
}

std::optional<ExchangeKind> parse_exchange_kind(std::string_view name) {
  for (const ExchangeKind kind :
       {ExchangeKind::kDirect, ExchangeKind::kRing, ExchangeKind::kGather})
    if (name == exchange_kind_name(kind)) return kind;
  return std::nullopt;
}

ExchangePlan plan_exchange(ExchangeKind kind, int replicas, int64_t elements) {
  HEDDLE_CHECK(replicas >= 1 && replicas <= TreeSumArgs::kMaxInputs,
               "exchange: {} replicas, 1 to {} are possible", replicas, TreeSumArgs::kMaxInputs);
  HEDDLE_CHECK(elements >= 0, "exchange: {} elements", elements);
  ExchangePlan plan{kind, replicas, elements, 0, {}, {}, {}};
  plan.slots.assign(static_cast<size_t>(replicas), 0);
  if (replicas == 1 || elements == 0) return plan;
  if (kind == ExchangeKind::kDirect) plan_direct(plan);
  if (kind == ExchangeKind::kRing) plan_ring(plan);
  if (kind == ExchangeKind::kGather) plan_gather(plan);
  find_last_reads(plan);
  return plan;
}

std::vector<int64_t> bytes_by_replica(const ExchangePlan& plan, int64_t element_bytes) {
  std::vector<int64_t> sent(static_cast<size_t>(plan.replicas)), taken(sent);
  for (const ExchangePhase& phase : plan.phases) {
    for (const Transfer& transfer : phase.transfers) {
      sent[static_cast<size_t>(transfer.from)] += transfer.count * element_bytes;
      taken[static_cast<size_t>(transfer.to)] += transfer.count * element_bytes;
    }
  }
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = std::max(sent[i], taken[i]);
  return sent;
}

double least_bytes(int replicas, int64_t elements, int64_t element_bytes) {
  return 2.0 * (replicas - 1) / replicas * static_cast<double>(elements * element_bytes);
}

double estimated_seconds(const ExchangePlan& plan, const Links& links) {
  HEDDLE_CHECK(links.size() == plan.replicas, "exchange: {} replicas, links of {}", plan.replicas,
               links.size());
  double seconds = 0;
  for (const ExchangePhase& phase : plan.phases) {
    std::vector<double> busy(static_cast<size_t>(plan.replicas)), giving(busy);
    for (const Transfer& transfer : phase.transfers) {
      const Link& link = links.at(transfer.from, transfer.to);
      const double once =
          link.latency + static_cast<double>(transfer.count) * 4 / link.bytes_per_second;
      const double copy = link.peer_access ? once : 2 * once;
      busy[static_cast<size_t>(transfer.to)] += copy;
      giving[static_cast<size_t>(transfer.from)] += copy;
    }
    seconds += std::max(*std::max_element(busy.begin(), busy.end()),
                        *std::max_element(giving.begin(), giving.end()));
  }
  return seconds;
}

ExchangeKind choose_exchange(const Links& links, int64_t elements, bool any_order) {
  ExchangeKind best = ExchangeKind::kDirect;
  double least = estimated_seconds(plan_exchange(best, links.size(), elements), links);
  for (const ExchangeKind kind : {ExchangeKind::kGather, ExchangeKind::kRing}) {
    if (!any_order && !keeps_tree_order(kind)) continue;
    const double seconds = estimated_seconds(plan_exchange(kind, links.size(), elements), links);
    if (seconds < least) {
      best = kind;
      least = seconds;
    }
  }
  return best;
}

}  // namespace heddle
