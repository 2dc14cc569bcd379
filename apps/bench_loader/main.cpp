// How many pictures a second the loader alone makes: for the transforms "normalize" and
// "crop_flip", for several numbers of workers, and for three ways: "plain" makes tensors on the
// CPU; "uint8" and "float" write into slots what would be copied to a CUDA device (the records'
// bytes and the draws, or transformed pictures), which is the host's part of staging: no copy, no
// device. scripts/compare_pytorch.sh puts PyTorch's DataLoader beside it. The settings are measured
// in turn, round after round, and the median of the rounds counts.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "heddle/apps/bench_loader/host_slots.h"
#include "heddle/apps/support/program.h"
#include "heddle/data/cifar10.h"
#include "heddle/data/loader.h"
#include "heddle/data/synthetic.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string data;
  bool allow_small = false;
  int64_t batch_size = 64;
  std::vector<std::string> workers = {"0", "1", "2", "4", "auto"};
  std::vector<std::string> ways = {"plain", "uint8", "float"};
  double seconds = 0.5;  // a measurement
  int rounds = 5;
  bool json = false;
};

struct Setting {
  std::string transform;
  std::string way;
  std::string workers;
  std::unique_ptr<heddle::Loader> loader;
  std::vector<double> rates;  // images a second, one a round
};

std::shared_ptr<const heddle::Dataset> open(const Options& options) {
  if (!options.data.empty())
    return std::make_shared<heddle::Cifar10>(
        options.data, heddle::Split::kTrain,
        heddle::Cifar10Options{.allow_small = options.allow_small});
  return std::make_shared<heddle::Synthetic>(heddle::Split::kTrain);
}

Setting setting(const Options& options, const std::shared_ptr<const heddle::Dataset>& dataset,
                const std::string& transform, const std::string& way, const std::string& workers) {
  heddle::LoaderOptions loader{
      .batch_size = options.batch_size,
      .shuffle = true,
      .workers = workers == "auto" ? heddle::kAutoWorkers : std::stoi(workers)};
  if (transform == "crop_flip") {
    loader.transform.crop_padding = 4;
    loader.transform.flip = true;
  }
  if (way != "plain") {
    loader.make_ring = heddle::bench_loader::make_host_slots;
    loader.staging = way == "uint8" ? heddle::Staging::kUint8 : heddle::Staging::kFloat;
  }
  return {transform, way, workers, std::make_unique<heddle::Loader>(dataset, loader), {}};
}

std::vector<Setting> settings(const Options& options) {
  const auto dataset = open(options);
  std::vector<Setting> all;
  for (const char* const transform : {"normalize", "crop_flip"})
    for (const std::string& workers : options.workers)
      for (const std::string& way : options.ways)
        all.push_back(setting(options, dataset, transform, way, workers));
  return all;
}

/// Images a second over whole epochs, starting and leaving them included, until the time is over.
double measure(heddle::Loader& loader, double seconds) {
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  int64_t images = 0;
  while (elapsed() < seconds)
    for (const heddle::Batch& batch : loader) images += batch.size();
  return static_cast<double>(images) / elapsed();
}

nlohmann::json summary(const Setting& setting) {
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

void print(const std::vector<Setting>& all, const Options& options) {
  nlohmann::json results = nlohmann::json::array();
  for (const Setting& setting : all) results.push_back(summary(setting));
  if (options.json) {
    const nlohmann::json document = {{"batch_size", options.batch_size},
                                     {"rounds", options.rounds},
                                     {"data", options.data.empty() ? "synthetic" : options.data},
                                     {"results", results}};
    std::cout << document.dump(2) << '\n';
    return;
  }
  fmt::print("{:<12} {:<6} {:>7} {:>12} {:>12} {:>12}\n", "transform", "way", "workers", "images/s",
             "lowest", "highest");
  for (const nlohmann::json& row : results)
    fmt::print("{:<12} {:<6} {:>7} {:>12.0f} {:>12.0f} {:>12.0f}\n",
               row["transform"].get<std::string>(), row["way"].get<std::string>(),
               row["workers"].get<std::string>(), row["images_per_second"].get<double>(),
               row["lowest"].get<double>(), row["highest"].get<double>());
}

void add_flags(CLI::App& app, Options& options) {
  app.add_option("--data", options.data,
                 "folder with CIFAR-10's binary files; without it pictures are generated");
  app.add_flag("--allow-small", options.allow_small, "accept files of fewer records");
  app.add_option("--batch-size", options.batch_size, "samples a batch")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--workers", options.workers, "numbers of workers to measure, or auto")
      ->check(CLI::Range(0, 1024) | CLI::IsMember({"auto"}))
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--ways", options.ways, "plain, uint8 and float")
      ->check(CLI::IsMember({"plain", "uint8", "float"}))
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "at least this long a measurement")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "measurements of each setting")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", options.json, "print JSON");
}

int run(int argc, char** argv) {
  CLI::App app("Measures the data loader alone, in images a second.");
  Options options;
  add_flags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::vector<Setting> all = settings(options);
  for (Setting& setting : all) measure(*setting.loader, 0.01);  // one epoch to warm up
  for (int round = 0; round < options.rounds; ++round)
    for (Setting& setting : all) setting.rates.push_back(measure(*setting.loader, options.seconds));
  print(all, options);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return heddle::apps::run_program("bench_loader", [&] { return run(argc, argv); });
}
