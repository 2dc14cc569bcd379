#include "heddle/apps/train_cifar/session.h"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include "heddle/apps/support/trace_file.h"
#include "heddle/apps/train_cifar/checkpoint.h"
#include "heddle/apps/train_cifar/optimizer_setup.h"
#include "heddle/apps/train_cifar/report.h"
#include "heddle/apps/train_cifar/signals.h"
#include "heddle/apps/train_cifar/trainer.h"
#include "heddle/core/denormals.h"
#include "heddle/core/version.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/provider.h"
#include "heddle/nn/amp/autocast.h"
#include "heddle/nn/models/factory.h"
#include "heddle/nn/summary.h"

namespace heddle::train_cifar {
namespace {

namespace fs = std::filesystem;

constexpr int kExitInterrupted = 130;

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

/// Runs of one model that begin in the same second get numbers.
std::string new_folder(const std::string& model) {
  const std::string first = fmt::format("runs/{}-{}", model, time_stamp());
  std::string folder = first;
  for (int number = 2; fs::exists(folder); ++number) folder = fmt::format("{}-{}", first, number);
  return folder;
}

/// A run in the making: what the steps below hand on to each other.
struct Session {
  apps::FlagSet& flags;
  Options& options;
  std::vector<std::string> command;          // that makes the run again
  std::optional<CheckpointFile> checkpoint;  // where resuming
  RunState state;
  FolderUse folder_use = FolderUse::kNew;
};

/// Finds the checkpoint and takes over the flags that it records.
void open_checkpoint(Session& s) {
  Options& o = s.options;
  fs::path path = o.resume_file.empty() ? fs::path(o.out) : fs::path(o.resume_file);
  if (o.resume_file.empty() || fs::is_directory(path)) path /= "checkpoint.safetensors";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) fail("--resume: there is no {}", path.string());
  s.checkpoint.emplace(path);
  restore_options(s.flags, o, s.checkpoint->record().at("settings"));
  s.state = run_state_from_json(s.checkpoint->record().at("state"));
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (o.out.empty()) o.out = folder.string();
  const bool same = fs::exists(o.out) && fs::equivalent(o.out, folder);
  s.folder_use = same ? FolderUse::kResume : FolderUse::kNew;
  s.command = command_of(s.flags, o);
}

void choose_folder(Session& s) {
  Options& o = s.options;
  if (o.overwrite) s.folder_use = FolderUse::kOverwrite;
  if (o.out.empty()) o.out = new_folder(o.model);
  RunFolder::check(o.out, s.folder_use);
}

void set_machine(const Session& s) {
  if (s.options.threads > 0) set_num_threads(static_cast<int>(s.options.threads));
  set_provider(parse_provider(s.options.provider));
  set_allow_tf32(s.options.tf32);
  manual_seed(static_cast<uint64_t>(s.options.seed));
  if (s.checkpoint) s.checkpoint->restore_machine();
}

bool already_finished(const Session& s) {
  if (!s.checkpoint || s.options.eval_only || s.state.epochs_done < s.options.epochs) return false;
  fmt::print("already at epoch {} of {}; more with --epochs\n", s.state.epochs_done,
             s.options.epochs);
  return true;
}

void check_same_data(const Session& s, const nlohmann::ordered_json& data) {
  const auto recorded = s.checkpoint->record().find("data");
  if (recorded != s.checkpoint->record().end() && *recorded != data && !s.options.eval_only)
    fail("--resume: the checkpoint was trained on {}, the data now are {}", recorded->dump(),
         data.dump());
}

void check_position(const Session& s, int64_t steps_per_epoch) {
  if (s.state.batches_done > steps_per_epoch)
    fail("checkpoint: state.batches_done is {}, but an epoch has {} batches", s.state.batches_done,
         steps_per_epoch);
}

int evaluate_only(const Session& s, Module& model, const DataSets& data) {
  Loader loader = test_loader(data, s.options);
  const Evaluation result = evaluate(model, loader);
  print_classes(result, data.test->class_names());
  return 0;
}

int train(Session& s, Module& model, const DataSets& data, RunRecord record) {
  const Options& o = s.options;
  const int64_t steps_per_epoch = (data.train_size(o) + o.batch_size - 1) / o.batch_size;
  check_position(s, steps_per_epoch);
  const Schedule schedule = make_schedule(o, steps_per_epoch);
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(o, model);
  StepRunner step(o, model, *optimizer);
  if (s.checkpoint) s.checkpoint->restore(model, *optimizer);
  if (s.checkpoint && step.scaler() != nullptr)
    step.scaler()->load_state(
        scaler_state_from_json(s.checkpoint->record().value("scaler", nlohmann::ordered_json())));
  std::optional<ReplicatedStep> replicas;
  if (ReplicatedStep::wanted(o)) replicas.emplace(o, model, *optimizer, step.scaler());
  if (replicas && !o.quiet) fmt::print("replicas  {}\n", replicas->describe());
  RunFolder folder(o.out, s.folder_use);
  if (s.folder_use == FolderUse::kResume) folder.trim_metrics(s.state.step, s.state.epochs_done);
  Trainer trainer(o, data,
                  {model, *optimizer, schedule, folder, step, replicas ? &*replicas : nullptr},
                  std::move(record), s.state);
  return trainer.run() == Trainer::Outcome::kDone ? 0 : kExitInterrupted;
}

int run(Session& s) {
  const Options& o = s.options;
  const DataSets data = open_data(s.options);
  RunRecord record{
      s.flags.values(),
      {{"kind", data.kind}, {"train", data.train_size(o)}, {"test", data.test_size(o)}},
      s.command};
  if (s.checkpoint) check_same_data(s, record.data);
  const std::unique_ptr<Module> model = make_model(o.model);
  model->to(device_of(o));
  if (!o.init.empty() && !s.checkpoint) load_weights(*model, o.init);
  if (s.checkpoint && o.eval_only) s.checkpoint->restore(*model);
  if (!o.quiet) print_settings(s.flags, o, data, model->parameter_count());
  if (data.kind == "generated")
    fmt::print("note: no --data given, so this run uses generated pictures, not CIFAR-10\n");
  const Autocast precision(dtype_of(o));
  if (o.eval_only) return evaluate_only(s, *model, data);
  if (s.checkpoint && !o.quiet)
    fmt::print("resuming after step {}, in epoch {}\n", s.state.step, s.state.epochs_done + 1);
  return train(s, *model, data, std::move(record));
}

int show_summary(const Options& options) {
  const std::unique_ptr<Module> model = make_model(options.model);
  fmt::print("{}", summarize(*model, Shape{options.batch_size, 3, 32, 32}));
  return 0;
}

}  // namespace

int run_session(const std::vector<std::string>& arguments) {
  Options options;
  apps::FlagSet flags("train_cifar", "Trains a network on CIFAR-10.");
  declare_flags(flags, options);
  if (flags.parse(arguments, std::string(version())) == apps::ParseResult::kDone) return 0;
  check_options(flags, options);
  install_signal_handlers();
  const FlushDenormals flush_denormals;
  Session session{flags, options, arguments};
  if (options.resume) open_checkpoint(session);
  set_machine(session);
  if (options.list_devices) return print_devices(), 0;
  if (options.summary) return show_summary(options);
  if (already_finished(session)) return 0;
  if (!options.eval_only) choose_folder(session);
  apps::TraceFile trace("train_cifar", options.trace);
  const int exit_code = run(session);
  const std::string written = trace.finish();
  if (!written.empty() && !options.quiet) fmt::print("{}\n", written);
  return exit_code;
}

}  // namespace heddle::train_cifar
