// How many pictures a second the loader alone makes: for the transforms "normalize" and
// "crop_flip", for several numbers of workers, and for three ways: "plain" makes tensors on the
// CPU; "uint8" and "float" write into slots what would be copied to a CUDA device (the records'
// bytes and the draws, or transformed pictures), which is the host's part of staging: no copy, no
// device. scripts/compare_pytorch.sh puts PyTorch's DataLoader beside it. The settings are measured
// in turn, round after round, and the median of the rounds counts.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "heddle/apps/bench_loader/host_slots.h"
#include "heddle/apps/support/bench.h"
#include "heddle/apps/support/flags.h"
#include "heddle/apps/support/output_file.h"
#include "heddle/apps/support/program.h"
#include "heddle/apps/support/text.h"
#include "heddle/core/error.h"
#include "heddle/data/cifar10.h"
#include "heddle/data/loader.h"
#include "heddle/data/synthetic.h"

namespace heddle::bench_loader {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string data, workers = "0,1,2,4,auto", ways = "plain,uint8,float", json;
  bool allow_small = false;
  int64_t batch_size = 64, rounds = 5;
  double seconds = 0.5;  // a measurement
};

struct Setting {
  std::string transform;
  std::string way;
  std::string workers;
  std::unique_ptr<Loader> loader;
  std::vector<double> rates;  // images a second, one a round
};

/// Throws where one part of the list is not allowed.
template <class Allowed>
void check_list(const std::string& list, Allowed allowed, const std::string& expected) {
  for (const std::string& part : apps::split_text(list))
    if (!allowed(part))
      throw UsageError(fmt::format("\"{}\" is not allowed, expected {} with commas between them",
                                   list, expected));
}

void check_workers(const std::string& list) {
  check_list(
      list, [](const std::string& part) { return apps::parse_workers(part).has_value(); },
      fmt::format("whole numbers from 0 to {} or auto", apps::kMostWorkers));
}

void check_ways(const std::string& list) {
  check_list(
      list,
      [](const std::string& way) { return way == "plain" || way == "uint8" || way == "float"; },
      "plain, uint8 or float");
}

bool parse(const std::vector<std::string>& arguments, Options& o) {
  apps::FlagSet flags("bench_loader",
                      "Measures the data loader alone, in images a second. Settings run in turn.");
  flags.text("--data", &o.data, "DIR",
             "Folder of the CIFAR-10 binary files; without it, a generated set of that shape");
  flags.toggle("--allow-small", &o.allow_small, "Accept data files with fewer than 10000 records");
  flags.integer("--batch-size,--batch", &o.batch_size, 1, 65536, "Samples in a batch");
  flags.text("--workers", &o.workers, "N,N,...", "Numbers of workers to measure, or auto",
             check_workers);
  flags.text("--ways", &o.ways, "WAY,WAY,...",
             "plain: tensors on the CPU; uint8, float: the host's part of staging", check_ways);
  flags.number("--seconds", &o.seconds, {.low = 0, .high = 3600},
               "A measurement takes at least this long");
  flags.integer("--rounds", &o.rounds, 1, 1000, "Measurements of each setting");
  flags.text("--json", &o.json, "FILE",
             "Write the figures there (-: to standard output, in place of the table)");
  if (flags.parse(arguments, HEDDLE_VERSION) == apps::ParseResult::kDone) return false;
  flags.only_with({"--allow-small"}, !o.data.empty(), "--data");
  return true;
}

std::shared_ptr<const Dataset> open(const Options& options) {
  if (options.data.empty()) return std::make_shared<Synthetic>(Split::kTrain);
  return std::make_shared<Cifar10>(options.data, Split::kTrain,
                                   Cifar10Options{.allow_small = options.allow_small});
}

Setting setting(const Options& options, const std::shared_ptr<const Dataset>& dataset,
                const std::string& transform, const std::string& way, const std::string& workers) {
  LoaderOptions loader{.batch_size = options.batch_size,
                       .shuffle = true,
                       .workers = apps::parse_workers(workers).value()};
  if (transform == "crop_flip") {
    loader.transform.crop_padding = 4;
    loader.transform.flip = true;
  }
  if (way != "plain") {
    loader.make_ring = make_host_slots;
    loader.staging = way == "uint8" ? Staging::kUint8 : Staging::kFloat;
  }
  return {transform, way, workers, std::make_unique<Loader>(dataset, loader), {}};
}

std::vector<Setting> settings(const Options& options) {
  const auto dataset = open(options);
  std::vector<Setting> all;
  for (const char* const transform : {"normalize", "crop_flip"})
    for (const std::string& workers : apps::split_text(options.workers))
      for (const std::string& way : apps::split_text(options.ways))
        all.push_back(setting(options, dataset, transform, way, workers));
  return all;
}

/// Images a second over whole epochs, starting and leaving them included, until the time is over.
double measure(Loader& loader, double seconds) {
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  int64_t images = 0;
  do {
    for (const Batch& batch : loader) images += batch.size();
  } while (elapsed() < seconds);
  return static_cast<double>(images) / elapsed();
}

nlohmann::ordered_json to_json(const Setting& setting) {
  std::vector<double> sorted = setting.rates;
  std::sort(sorted.begin(), sorted.end());
  return {{"transform", setting.transform},
          {"way", setting.way},
          {"workers", setting.workers},
          {"ended_with", setting.loader->in_use().workers},
          {"images_per_second", sorted[sorted.size() / 2]},
          {"lowest", sorted.front()},
          {"highest", sorted.back()}};
}

void report(const std::vector<Setting>& all, const Options& options) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  bench::Table table({"transform", "way", "workers", "images/s", "lowest", "highest"});
  for (const Setting& setting : all) {
    results.push_back(to_json(setting));
    const auto rate = [&](const char* key) {
      return fmt::format("{:.0f}", results.back()[key].get<double>());
    };
    table.row({setting.transform, setting.way, setting.workers, rate("images_per_second"),
               rate("lowest"), rate("highest")});
  }
  if (options.json != "-") table.print();
  if (!options.json.empty())
    bench::write_json(options.json, {{"batch_size", options.batch_size},
                                     {"rounds", options.rounds},
                                     {"data", options.data.empty() ? "synthetic" : options.data},
                                     {"results", std::move(results)}});
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  apps::check_output_file("--json", options.json);
  std::vector<Setting> all = settings(options);
  for (Setting& setting : all) measure(*setting.loader, 0.0);  // one epoch to warm up
  for (int64_t round = 0; round < options.rounds; ++round)
    for (Setting& setting : all) setting.rates.push_back(measure(*setting.loader, options.seconds));
  report(all, options);
  return 0;
}

}  // namespace
}  // namespace heddle::bench_loader

int main(int argc, char** argv) {
  return heddle::apps::run_program("bench_loader", [&] {
    return heddle::bench_loader::run({argv + 1, argv + argc});
  });
}
