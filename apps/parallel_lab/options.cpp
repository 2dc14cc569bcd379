#include "heddle/apps/parallel_lab/options.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "heddle/apps/parallel_lab/machine.h"
#include "heddle/apps/parallel_lab/models.h"
#include "heddle/apps/support/text.h"
#include "heddle/core/error.h"
#include "heddle/core/split.h"
#include "heddle/nn/summary.h"

namespace heddle::lab {
namespace {

constexpr int64_t kLargestBatch = 1 << 20;

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
    images.push_back(
        std::min(whole_number(part, "--split", "even, or images of each replica as 64,32,32"),
                 kLargestBatch + 1));
  if (static_cast<int64_t>(images.size()) != o.replicas)
    throw UsageError(fmt::format("--split: \"{}\" has {} parts, expected {}, one a replica",
                                 o.split, images.size(), o.replicas));
  const int64_t sum = std::accumulate(images.begin(), images.end(), int64_t{0});
  if (sum < 1 || sum > kLargestBatch)
    throw UsageError(
        fmt::format("--split: \"{}\" is {} images, expected 1 to {}", o.split, sum, kLargestBatch));
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
  const auto model = make_lab_model(model_name);
  std::vector<Layer> layers;
  for (const LayerSummary& row : layer_summaries(*model, batch_shape(model_name, 1)))
    if (row.flops > 0 || row.parameters > 0)
      layers.push_back({row.name, static_cast<double>(row.flops), row.parameters});
  return layers;
}

Links links_of(const Options& o, const std::vector<Device>& devices) {
  if (o.links == "given")
    return Links(
        static_cast<int>(o.replicas),
        {.peer_access = true, .bytes_per_second = o.bandwidth * 1e9, .latency = o.latency * 1e-6});
  if (devices.size() < 2 || devices[0].type == DeviceType::kCpu || devices_are_virtual())
    throw UsageError(
        "--links: measured is for two or more real CUDA devices, which --devices names; expected "
        "given");
  return Links::measure(devices);
}

int64_t parameters_of(const Setup& setup) {
  return std::accumulate(setup.layers.begin(), setup.layers.end(), int64_t{0},
                         [](int64_t sum, const Layer& layer) { return sum + layer.parameters; });
}

/// Unless told otherwise a quarter of the gradients, so that there is something to overlap.
int64_t bucket_bytes_of(const Options& o, int64_t parameters) {
  constexpr int64_t kMebibyte = 1 << 20;
  if (o.bucket_mib > 0) return static_cast<int64_t>(o.bucket_mib * kMebibyte);
  return std::clamp<int64_t>(parameters * size_of(DType::kFloat32) / 4, 1, kMebibyte);
}

/// The highest N of the cuda:N in the text, which need not make sense otherwise; -1: none.
int highest_cuda_index(const std::string& devices) {
  int highest = -1;
  for (size_t at = devices.find("cuda:"); at != std::string::npos; at = devices.find("cuda:", at)) {
    at += 5;
    int index = -1;
    std::from_chars(devices.data() + at, devices.data() + devices.size(), index);
    highest = std::max(highest, index);
  }
  return highest;
}

void check_replica(const char* flag, int64_t replica, const std::vector<int64_t>& images) {
  const auto n = static_cast<int64_t>(images.size());
  if (replica >= n)
    throw UsageError(
        fmt::format("{}: {} is not allowed, expected less than the {} replicas", flag, replica, n));
  if (replica >= 0 && images[static_cast<size_t>(replica)] == 0)
    throw UsageError(
        fmt::format("{}: {} is not allowed, expected a replica that has images", flag, replica));
}

}  // namespace

void add_flags(apps::FlagSet& flags, Options& o) {
  flags.group("The steps");
  flags.choice("--model", &o.model, lab_model_names(), "Whose layers are computed");
  flags.text(
      "--devices", &o.devices, "LIST",
      "Who runs the steps: cpu,cpu (logical replicas), cuda:0,cuda:1, all; none: one step is "
      "simulated and nothing runs; default: as many as --replicas, on the CPU (in "
      "parallel_lab_sim virtual devices)");
  flags.integer("--replicas", &o.replicas, 1, 16, "Devices that share a batch");
  flags.integer("--steps", &o.steps, 1, 1000, "Steps that are run");
  flags.integer("--batch-size", &o.batch_size, 1, kLargestBatch,
                "Images in a batch, of all replicas");
  flags.text("--split", &o.split, "even|N,N,...",
             "Images of each replica, in place of --batch-size");
  flags.choice("--exchange", &o.exchange, {"auto", "direct", "ring", "gather"},
               "Who sums the gradients; auto: the fastest by the links, in tree order");
  flags.toggle("--any-order", &o.any_order, "auto may choose the ring");
  flags.number("--bucket-mib", &o.bucket_mib, {0, 1024},
               "MiB of gradients that are exchanged together; 0: a quarter of them, at most 1");
  flags.group("The simulated machine");
  flags.number("--bandwidth", &o.bandwidth, {1e-3, 1e5}, "GB/s of each link, one way");
  flags.number("--latency", &o.latency, {0, 1e6}, "Microseconds before a copy's first byte");
  flags.choice("--links", &o.links, {"given", "measured"},
               "The links' speeds: those two, or measured between the --devices");
  flags.number("--tflops", &o.tflops, {1e-3, 1e5}, "TFLOP/s of each replica");
  flags.number("--memory-bandwidth", &o.memory_bandwidth, {1e-3, 1e6},
               "GB/s of each replica's memory");
  flags.group("Faults");
  flags.text("--no-peer", &o.no_peer, "none|all|A-B,...", "Pairs without peer access");
  flags.integer("--slow-replica", &o.slow_replica, -1, 15, "This replica is slow; -1: none");
  flags.number("--slow-factor", &o.slow_factor, {1, 1000}, "How much slower it is");
  flags.integer("--lost-replica", &o.lost_replica, -1, 15,
                "This replica is lost halfway through the last backward; -1: none");
  flags.integer("--late-replica", &o.late_replica, -1, 15,
                "A copy of this replica's is late; -1: none");
  flags.number("--late-ms", &o.late_ms, {0, 1e6}, "By how many milliseconds");
  flags.group("Output");
  flags.text("--svg", &o.svg, "FILE", "Draw the timeline there");
  flags.text("--json", &o.json, "FILE", "Write all figures there (-: to standard output)");
}

void check_flags(const apps::FlagSet& flags, const Options& o) {
  flags.only_with({"--steps"}, o.devices != "none", "--devices that run them");
  flags.only_with({"--any-order"}, o.exchange == "auto", "--exchange auto");
  flags.only_with({"--bandwidth", "--latency"}, o.links == "given", "--links given");
  flags.only_with({"--slow-factor"}, o.slow_replica >= 0, "--slow-replica");
  flags.only_with({"--late-ms"}, o.late_replica >= 0, "--late-replica");
  if (o.split != "even" && flags.given("--batch-size"))
    throw UsageError(
        "--batch-size contradicts --split: the parts of the split are the batch's images");
}

std::vector<Device> choose_devices(Options& o, bool replicas_given) {
  if (o.devices == "none") return {};
  const auto n = static_cast<int>(o.replicas);
  std::vector<Device> devices;
  if (o.devices == "default") {
    provide_devices(n);
    for (int i = 0; i < n; ++i)
      devices.push_back(devices_are_virtual() ? Device{DeviceType::kCuda, i} : Device::cpu());
    return devices;
  }
  provide_devices(std::min(highest_cuda_index(o.devices) + 1, 16));
  try {
    devices = parse_devices(o.devices);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--devices: {}", error.what()));
  }
  const auto found = static_cast<int64_t>(devices.size());
  if (found > 16)
    throw UsageError(fmt::format("--devices: {} devices, expected at most 16", found));
  if (replicas_given && found != o.replicas)
    throw UsageError(fmt::format("--devices: \"{}\" is {} devices, expected {}, as --replicas says",
                                 o.devices, found, o.replicas));
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i].type != devices[0].type ||
        (devices[i].type == DeviceType::kCuda &&
         std::count(devices.begin(), devices.end(), devices[i]) > 1))
      throw UsageError(
          fmt::format("--devices: \"{}\" is not allowed, expected different CUDA "
                      "devices, or cpu any number of times",
                      o.devices));
  o.replicas = found;
  return devices;
}

Setup make_setup(const Options& o, const std::vector<Device>& devices) {
  Setup setup;
  setup.images = split_batch(o);
  check_replica("--slow-replica", o.slow_replica, setup.images);
  check_replica("--lost-replica", o.lost_replica, setup.images);
  check_replica("--late-replica", o.late_replica, setup.images);
  setup.links = links_of(o, devices);
  cut_peers(o, setup.links);
  setup.layers = layers_of(o.model);
  setup.flops_per_second = o.tflops * 1e12;
  setup.memory_bytes_per_second = o.memory_bandwidth * 1e9;
  setup.slow_replica = static_cast<int>(o.slow_replica);
  setup.slow_factor = o.slow_factor;
  setup.lost_replica = static_cast<int>(o.lost_replica);
  setup.late_replica = static_cast<int>(o.late_replica);
  setup.late_seconds = o.late_ms * 1e-3;
  const int64_t parameters = parameters_of(setup);
  setup.bucket_bytes = bucket_bytes_of(o, parameters);
  const std::optional<ExchangeKind> kind = parse_exchange_kind(o.exchange);
  setup.kind = kind ? *kind : choose_exchange(setup.links, parameters, o.any_order);
  return setup;
}

RunSetup make_run_setup(const Options& o, const std::vector<Device>& devices, const Setup& setup) {
  const int64_t batch_size = std::accumulate(setup.images.begin(), setup.images.end(), int64_t{0});
  return {.model = o.model,
          .devices = devices,
          .batch_size = batch_size,
          .split = o.split == "even" ? std::vector<int64_t>{} : setup.images,
          .steps = o.steps,
          .kind = setup.kind,
          .bucket_bytes = setup.bucket_bytes,
          .links = setup.links,
          .faults = {.slow_replica = setup.slow_replica,
                     .slow_factor = setup.slow_factor,
                     .lost_replica = setup.lost_replica,
                     .late_replica = setup.late_replica,
                     .late_seconds = setup.late_seconds}};
}

}  // namespace heddle::lab
