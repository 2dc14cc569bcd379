#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/parallel/links.h"

namespace heddle {

/// Who sums what in an exchange of gradients.
enum class ExchangeKind {
  kDirect,  ///< Each replica sums its own part of all, then hands it round. Tree order.
  kRing,    ///< Parts go round by neighbours, each adding its own. The order depends on the number.
  kGather,  ///< Replica 0 sums all, then hands it round. Tree order.
};
std::string_view exchange_kind_name(ExchangeKind kind);
/// The kind of that name, or none.
std::optional<ExchangeKind> parse_exchange_kind(std::string_view name);

/// Whether sums are added by a tree over the replicas' places, ((0+1)+(2+3))+..., whoever adds.
constexpr bool keeps_tree_order(ExchangeKind kind) { return kind != ExchangeKind::kRing; }

/// `count` elements from `first` on go from a replica's tensor to the same place of another's or,
/// with slot >= 0, into its scratch memory at slot * scratch_stride.
struct Transfer {
  int from;
  int to;
  int64_t first;
  int64_t count;
  int slot = -1;
};

/// Elements `first` to `first + count` of the replica's tensor become the sum of the inputs as a
/// tree in their order: -1 is what the tensor holds, others are slots of its scratch memory.
struct Sum {
  int at;
  int64_t first;
  int64_t count;
  std::vector<int> inputs;
};

/// What happens at once: all transfers read what the phase before left, then come the sums.
struct ExchangePhase {
  std::vector<Transfer> transfers;
  std::vector<Sum> sums;
};

/// All that an exchange does, for whoever runs, times or draws it.
struct ExchangePlan {
  ExchangeKind kind{};
  int replicas = 1;
  int64_t elements = 0;
  int64_t scratch_stride = 0;  ///< Elements of a slot.
  std::vector<int> slots;      ///< Of each replica's scratch memory.
  std::vector<ExchangePhase> phases;
  /// (reader, source): what the source does next must wait for the reader, since nothing in the
  /// plan makes it wait already.
  std::vector<std::pair<int, int>> last_reads;
};

/// Every replica's tensor of `elements` becomes the sum of all. Parts begin at multiples of 4
/// elements (16 bytes). Errors: no replica, or more than 16.
ExchangePlan plan_exchange(ExchangeKind kind, int replicas, int64_t elements);

/// Bytes that each replica sends or takes, whichever are more.
std::vector<int64_t> bytes_by_replica(const ExchangePlan& plan, int64_t element_bytes = 4);
/// No exchange's busiest replica has fewer: 2(N-1)/N of the bytes.
double least_bytes(int replicas, int64_t elements, int64_t element_bytes = 4);

/// How long the plan takes by a plain model: in each phase every replica takes its transfers one
/// after the other, each latency + bytes / speed (twice through the host, where there is no peer
/// access), and the slowest replica ends the phase. Units: seconds.
double estimated_seconds(const ExchangePlan& plan, const Links& links);

/// The kind with the shortest estimate for this length; ties go to kDirect. kRing only where
/// `any_order` allows it.
ExchangeKind choose_exchange(const Links& links, int64_t elements, bool any_order = false);

}  // namespace heddle
