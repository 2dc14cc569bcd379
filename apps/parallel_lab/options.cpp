#include "heddle/apps/parallel_lab/options.h"

#include <numeric>

#include "heddle/apps/support/text.h"
#include "heddle/core/error.h"
#include "heddle/core/split.h"
#include "heddle/nn/models/factory.h"
#include "heddle/nn/summary.h"

namespace heddle::lab {
namespace {

int64_t whole_number(const std::string& text, const char* flag, const std::string& expected) {
  const std::optional<int64_t> value = apps::parse_whole<int64_t>(text);
  if (!value || *value < 0)
    throw UsageError(fmt::format("{}: \"{}\" is not allowed, expected {}", flag, text, expected));
  return *value;
}

std::vector<int64_t> split_batch(const Options& o) {
  std::vector<int64_t> images;
  if (o.split == "even") {
    for (const Range& part : split_evenly(o.batch_size, o.replicas)) images.push_back(part.size);
    return images;
  }
  for (const std::string& part : apps::split_text(o.split, ','))
    images.push_back(whole_number(part, "--split", "even, or images of each replica as 64,32,32"));
  if (static_cast<int64_t>(images.size()) != o.replicas)
    throw UsageError(fmt::format("--split: \"{}\" has {} parts, expected {}, one a replica",
                                 o.split, images.size(), o.replicas));
  return images;
}

void cut_peers(const Options& o, Links& links) {
  const int n = links.size();
  const auto cut = [&](int a, int b) {
    links.at(a, b).peer_access = links.at(b, a).peer_access = false;
  };
  if (o.no_peer == "none") return;
  if (o.no_peer == "all") {
    for (int a = 0; a < n; ++a)
      for (int b = a + 1; b < n; ++b) cut(a, b);
    return;
  }
  for (const std::string& pair : apps::split_text(o.no_peer, ',')) {
    const std::vector<std::string> ends = apps::split_text(pair, '-');
    const std::string expected = "none, all, or pairs of replicas as 0-1,2-3";
    const int64_t a = whole_number(ends[0], "--no-peer", expected);
    const int64_t b = ends.size() == 2 ? whole_number(ends[1], "--no-peer", expected) : a;
    if (a == b || a >= n || b >= n)
      throw UsageError(
          fmt::format("--no-peer: \"{}\" is not allowed, expected {}", pair, expected));
    cut(static_cast<int>(a), static_cast<int>(b));
  }
}

std::vector<Layer> layers_of(const std::string& model_name) {
  const auto model = make_model(model_name);
  std::vector<Layer> layers;
  for (const LayerSummary& row : layer_summaries(*model, {1, 3, 32, 32}))
    if (row.flops > 0 || row.parameters > 0)
      layers.push_back({row.name, static_cast<double>(row.flops), row.parameters});
  return layers;
}

Links links_of(const Options& o) {
  const auto n = static_cast<size_t>(o.replicas);
  if (o.measure.empty())
    return Links(
        static_cast<int>(n),
        {.peer_access = true, .bytes_per_second = o.bandwidth * 1e9, .latency = o.latency * 1e-6});
  const std::vector<Device> devices = parse_devices(o.measure);
  if (devices.size() != n)
    throw UsageError(fmt::format("--measure: \"{}\" is {} devices, expected {}, as --replicas says",
                                 o.measure, devices.size(), n));
  return Links::measure(devices);
}

void check_replica(const char* flag, int64_t replica, int64_t replicas) {
  if (replica >= replicas)
    throw UsageError(fmt::format("{}: {} is not allowed, expected less than the {} replicas", flag,
                                 replica, replicas));
}

}  // namespace

void add_flags(apps::FlagSet& flags, Options& o) {
  flags.group("The step");
  flags.choice("--model", &o.model, model_names(), "Whose layers are computed");
  flags.integer("--replicas", &o.replicas, 1, 16, "Devices that share a batch");
  flags.integer("--batch-size", &o.batch_size, 1, 1 << 20, "Images in a batch, of all replicas");
  flags.text("--split", &o.split, "even|N,N,...", "Images of each replica");
  flags.choice("--exchange", &o.exchange, {"auto", "direct", "ring", "gather"},
               "Who sums the gradients; auto: the fastest by the links, in tree order");
  flags.toggle("--any-order", &o.any_order, "auto may choose the ring");
  flags.number("--bucket-mib", &o.bucket_mib, {1e-3, 1024},
               "MiB of gradients that are exchanged together");
  flags.group("The machine");
  flags.number("--bandwidth", &o.bandwidth, {1e-3, 1e5}, "GB/s of each link, one way");
  flags.number("--latency", &o.latency, {0, 1e6}, "Microseconds before a copy's first byte");
  flags.text("--measure", &o.measure, "DEVICES",
             "Measure the links between these instead, as cuda:0,cuda:1 or all");
  flags.number("--tflops", &o.tflops, {1e-3, 1e5}, "TFLOP/s of each replica");
  flags.number("--memory-bandwidth", &o.memory_bandwidth, {1e-3, 1e6},
               "GB/s of each replica's memory");
  flags.group("Faults");
  flags.text("--no-peer", &o.no_peer, "none|all|A-B,...", "Pairs without peer access");
  flags.integer("--slow-replica", &o.slow_replica, -1, 15, "This replica is slow; -1: none");
  flags.number("--slow-factor", &o.slow_factor, {1, 1000}, "How much slower it is");
  flags.integer("--lost-replica", &o.lost_replica, -1, 15,
                "This replica is lost halfway through backward; -1: none");
  flags.integer("--late-replica", &o.late_replica, -1, 15,
                "The first peer copy that this replica takes is late; -1: none");
  flags.number("--late-ms", &o.late_ms, {0, 1e6}, "By how many milliseconds");
  flags.group("Output");
  flags.text("--svg", &o.svg, "FILE", "Draw the timeline there");
  flags.text("--json", &o.json, "FILE", "Write all figures there (-: to standard output)");
}

Setup make_setup(const Options& o) {
  check_replica("--slow-replica", o.slow_replica, o.replicas);
  check_replica("--lost-replica", o.lost_replica, o.replicas);
  check_replica("--late-replica", o.late_replica, o.replicas);
  Setup setup;
  setup.images = split_batch(o);
  setup.links = links_of(o);
  cut_peers(o, setup.links);
  setup.layers = layers_of(o.model);
  setup.flops_per_second = o.tflops * 1e12;
  setup.memory_bytes_per_second = o.memory_bandwidth * 1e9;
  setup.bucket_bytes = static_cast<int64_t>(o.bucket_mib * (1 << 20));
  setup.slow_replica = static_cast<int>(o.slow_replica);
  setup.slow_factor = o.slow_factor;
  setup.lost_replica = static_cast<int>(o.lost_replica);
  setup.late_replica = static_cast<int>(o.late_replica);
  setup.late_seconds = o.late_ms * 1e-3;
  const int64_t parameters =
      std::accumulate(setup.layers.begin(), setup.layers.end(), int64_t{0},
                      [](int64_t sum, const Layer& layer) { return sum + layer.parameters; });
  const std::optional<ExchangeKind> kind = parse_exchange_kind(o.exchange);
  setup.kind = kind ? *kind : choose_exchange(setup.links, parameters, o.any_order);
  return setup;
}

}  // namespace heddle::lab
