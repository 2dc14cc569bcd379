// How many pictures a second the loader alone makes: for the transforms "normalize" and "crop_flip"
// and for several numbers of workers. scripts/compare_pytorch.sh puts PyTorch's DataLoader beside
// it. The settings are measured in turn, round after round, and the median of the rounds counts.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

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
  std::vector<int> workers = {0, 1, 2, 4};
  double seconds = 0.5;  // a measurement
  int rounds = 5;
  bool json = false;
};

struct Setting {
  std::string transform;
  int workers = 0;
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

std::vector<Setting> settings(const Options& options) {
  const auto dataset = open(options);
  std::vector<Setting> all;
  for (const bool augment : {false, true}) {
    heddle::TransformOptions transform;
    if (augment) {
      transform.crop_padding = 4;
      transform.flip = true;
    }
    for (const int workers : options.workers)
      all.push_back({augment ? "crop_flip" : "normalize",
                     workers,
                     std::make_unique<heddle::Loader>(
                         dataset, heddle::LoaderOptions{.batch_size = options.batch_size,
                                                        .shuffle = true,
                                                        .workers = workers,
                                                        .transform = transform}),
                     {}});
  }
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
          {"workers", setting.workers},
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
  fmt::print("{:<12} {:>7} {:>12} {:>12} {:>12}\n", "transform", "workers", "images/s", "lowest",
             "highest");
  for (const nlohmann::json& row : results)
    fmt::print("{:<12} {:>7} {:>12.0f} {:>12.0f} {:>12.0f}\n", row["transform"].get<std::string>(),
               row["workers"].get<int>(), row["images_per_second"].get<double>(),
               row["lowest"].get<double>(), row["highest"].get<double>());
}

void add_flags(CLI::App& app, Options& options) {
  app.add_option("--data", options.data,
                 "folder with CIFAR-10's binary files; without it pictures are generated");
  app.add_flag("--allow-small", options.allow_small, "accept files of fewer records");
  app.add_option("--batch-size", options.batch_size, "samples a batch")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--workers", options.workers, "numbers of workers to measure")
      ->check(CLI::Range(0, 1024))
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
