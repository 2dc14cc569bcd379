#include "heddle/apps/train_cifar/report.h"

#include <fmt/format.h>

#include <cstdio>

#include "heddle/core/version.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/provider.h"

namespace heddle::train_cifar {
namespace {

/// All flags with a value that matters, as a command line would give them.
std::string settings_line(const apps::FlagSet& flags) {
  const nlohmann::ordered_json values = flags.values();
  std::string line;
  for (const auto& [key, value] : values.items()) {
    if (value == false || value == "") continue;
    line += fmt::format("{}{}={}", line.empty() ? "" : " ", key,
                        value.is_string() ? value.get<std::string>() : value.dump());
  }
  return line;
}

double percent(int64_t part, int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string threads_text() {
  return fmt::format("{} {}", num_threads(), num_threads() == 1 ? "thread" : "threads");
}

}  // namespace

void print_settings(const apps::FlagSet& flags, const Options& options, const DataSets& data,
                    int64_t n_parameters) {
  fmt::print("heddle {}  train_cifar: {}, {} parameters\n", version(), options.model, n_parameters);
  fmt::print("data      {}: {} training and {} test pictures\n",
             data.kind == "generated" ? "generated pictures" : options.data,
             data.train_size(options), data.test_size(options));
  fmt::print("machine   {}, {}, {}, oneDNN {}, provider {}\n", options.devices, threads_text(),
             cpu::name_of(cpu::active_isa()), built_with_onednn() ? "yes" : "no",
             name_of(provider()));
  fmt::print("settings  {}\n", settings_line(flags));
  std::fflush(stdout);
}

void print_table_head() {
  fmt::print("{:>7}  {:>10}  {:>9}  {:>9}  {:>8}  {:>7}  {:>7}  {:>7}\n", "epoch", "train loss",
             "train acc", "test loss", "test acc", "data s", "step s", "eval s");
}

void print_table_row(const EpochSummary& s) {
  fmt::print("{:>7}  {:>10.4f}  {:>8.2f}%  {:>9.4f}  {:>7.2f}%  {:>7.2f}  {:>7.2f}  {:>7.2f}\n",
             fmt::format("{}/{}", s.epoch, s.n_epochs), s.train_loss, 100.0 * s.train_accuracy,
             s.test_loss, 100.0 * s.test_accuracy, s.data_seconds, s.step_seconds, s.eval_seconds);
  fmt::print("  {}\n", s.verdict);
  std::fflush(stdout);
}

void print_classes(const Evaluation& evaluation, const std::vector<std::string>& names) {
  fmt::print("test accuracy {:.2f}% ({} of {}), loss {:.4f}\n", 100.0 * evaluation.accuracy(),
             evaluation.n_correct(), evaluation.n_total(), evaluation.loss);
  for (size_t i = 0; i < evaluation.total.size(); ++i) {
    const std::string name = i < names.size() ? names[i] : fmt::format("class {}", i);
    if (evaluation.total[i] == 0)
      fmt::print("  {:<12} no samples\n", name);
    else
      fmt::print("  {:<12} {:6.2f}%  ({} of {})\n", name,
                 percent(evaluation.correct[i], evaluation.total[i]), evaluation.correct[i],
                 evaluation.total[i]);
  }
}

void print_devices() {
  fmt::print("cpu  {}, {}, oneDNN {}\n", threads_text(), cpu::name_of(cpu::active_isa()),
             built_with_onednn() ? "yes" : "no");
  for (const Device device : Device::all())
    if (device != Device::cpu()) fmt::print("{}  {}\n", device.to_string(), device.description());
}

nlohmann::ordered_json to_json(const EpochSummary& s) {
  return {{"event", "epoch"},
          {"epoch", s.epoch},
          {"step", s.step},
          {"lr", s.lr},
          {"train_loss", s.train_loss},
          {"train_accuracy", s.train_accuracy},
          {"test_loss", s.test_loss},
          {"test_accuracy", s.test_accuracy},
          {"data_seconds", s.data_seconds},
          {"step_seconds", s.step_seconds},
          {"eval_seconds", s.eval_seconds},
          {"workers", s.loader.workers},
          {"prefetch", s.loader.prefetch},
          {"split", to_json(s.split)},
          {"verdict", s.verdict}};
}

}  // namespace heddle::train_cifar
