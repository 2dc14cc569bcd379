#include "heddle/apps/train_cifar/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "heddle/apps/support/text.h"
#include "heddle/core/device.h"
#include "heddle/core/error.h"
#include "heddle/core/sync.h"
#include "heddle/data/loader.h"
#include "heddle/nn/models/factory.h"
#include "heddle/nn/optim/schedule.h"

namespace heddle::train_cifar {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kMany = 1'000'000'000;
constexpr int64_t kMostSyncShards = 256;  // of DataParallel

void check_devices(const std::string& text) {
  const std::vector<Device> devices = parse_devices(text);
  for (size_t i = 1; i < devices.size(); ++i) {
    const bool twice = devices[i].type == DeviceType::kCuda &&
                       std::find(devices.begin(), devices.begin() + static_cast<int>(i),
                                 devices[i]) != devices.begin() + static_cast<int>(i);
    if (twice || devices[i].type != devices[0].type)
      throw UsageError(fmt::format(
          "\"{}\" is not allowed, expected different CUDA devices, or cpu once or more", text));
  }
}

void check_workers(const std::string& text) {
  if (!apps::parse_workers(text))
    throw UsageError(
        fmt::format("\"{}\" is not allowed, expected auto or a whole number from 0 to {}", text,
                    apps::kMostWorkers));
}

void declare_data(apps::FlagSet& flags, Options& o) {
  flags.group("Data");
  flags.text("--data", &o.data, "DIR",
             "Folder of the CIFAR-10 binary files; without it, a generated set of that shape");
  flags.toggle("--download", &o.download,
               "Fetch the official archive into --data first (default: cifar10)");
  flags.toggle("--allow-small", &o.allow_small,
               "Accept data files with fewer than 10000 records (for trials)");
  flags.integer("--limit", &o.limit, 1, kMany,
                "Use the first N samples of each set; more than there are means all");
  flags.choice("--augment", &o.augment, {"none", "flip", "crop_flip", "crop_flip_cutout"},
               "What is done at random to training pictures");
  flags.text("--workers", &o.workers, "N",
             "Threads that prepare batches; 0: the training thread does; auto: as many as it takes "
             "not to wait. Never changes results",
             check_workers);
  flags.choice("--staging", &o.staging, {"uint8", "float", "resident"},
               "What is copied to a CUDA device: bytes, which it augments, prepared pictures, or "
               "all data once, at the start. Never changes results");
}

void declare_model(apps::FlagSet& flags, Options& o) {
  flags.group("Model");
  flags.choice("--model", &o.model, model_names(), "The network; tiny_cnn is for trials");
  flags.text("--init", &o.init, "FILE",
             "Start from the weights in a safetensors file, PyTorch's too");
  flags.toggle("--summary", &o.summary, "Print layers, parameters, FLOPs and memory, then exit");
}

void declare_training(apps::FlagSet& flags, Options& o) {
  flags.group("Training");
  flags.integer("--epochs", &o.epochs, 1, 1'000'000, "Passes over the training set");
  flags.integer("--batch-size,--batch", &o.batch_size, 1, 65536, "Samples in a step");
  flags.integer("--accumulate", &o.accumulate, 1, 65536,
                "Cut each batch into N parts and add their gradients; needs less memory");
  flags.choice("--optimizer", &o.optimizer, {"adam", "adamw", "sgd"}, "How weights are moved");
  flags.number("--lr", &o.lr, {.low = 0, .high = 3e38, .low_open = true}, "Learning rate");
  flags.number("--weight-decay", &o.weight_decay, {.low = 0, .high = 1e6},
               "Added to the gradient (adam, sgd) or decoupled (adamw, default 0.01)");
  flags.number("--momentum", &o.momentum, {.low = 0, .high = 1, .high_open = true}, "For sgd");
  flags.toggle("--nesterov", &o.nesterov, "Nesterov's momentum, for sgd");
  flags.number("--beta1", &o.beta1, {.low = 0, .high = 1, .high_open = true}, "For adam, adamw");
  flags.number("--beta2", &o.beta2, {.low = 0, .high = 1, .high_open = true}, "For adam, adamw");
  flags.number("--eps", &o.eps, {.low = 0, .high = 1, .low_open = true}, "For adam, adamw");
  flags.number("--label-smoothing", &o.label_smoothing, {.low = 0, .high = 1, .high_open = true},
               "Share of each label that is spread over all classes");
  flags.number("--clip-norm", &o.clip_norm, {.low = 0, .high = kInfinity},
               "Scale gradients down to this norm; 0: leave them");
}

void declare_schedule(apps::FlagSet& flags, Options& o) {
  flags.group("Learning-rate schedule");
  flags.choice("--schedule", &o.schedule, schedule_names(),
               "How the learning rate moves; --lr is its highest value");
  flags.integer("--warmup", &o.warmup, 0, kMany, "Steps of linear rise from 0 at the start");
  flags.integer("--lr-step", &o.lr_step, 1, 1'000'000,
                "step: epochs between the drops of the learning rate");
  flags.number("--lr-gamma", &o.lr_gamma, {.low = 0, .high = 1, .low_open = true},
               "step: factor of each drop");
  flags.number("--lr-min", &o.lr_min, {.low = 0, .high = 3e38}, "cosine: the last learning rate");
  flags.number("--peak-at", &o.peak_at, {.low = 0, .high = 1, .low_open = true, .high_open = true},
               "one_cycle: share of all steps before the peak");
}

void declare_machine(apps::FlagSet& flags, Options& o) {
  flags.group("Machine");
  flags.text("--devices", &o.devices, "LIST",
             "Where to compute: cpu, cuda:N, several of a kind with commas between, or all",
             check_devices);
  flags.integer(
      "--shards", &o.shards, 1, 65536,
      "Cut each batch into N parts, whichever device has them; 1, 2, 4 and 8 devices then "
      "give the same bits (default: one part a device)");
  flags.toggle("--sync-batch-norm", &o.sync_batch_norm,
               "Batch-norm over the whole batch of all devices and shards, each part's by itself "
               "otherwise; holds the activations of all parts at a time");
  flags.choice("--exchange", &o.exchange, {"auto", "direct", "ring", "gather"},
               "How several devices add their gradients; auto: the faster of direct and gather");
  flags.integer("--threads", &o.threads, 0, 1024,
                "Threads that compute; 0: one for each processor. Never changes native results");
  flags.choice("--precision", &o.precision, {"fp32", "bf16", "fp16"},
               "Arithmetic of convolution and linear layers; weights stay fp32");
  flags.choice("--provider", &o.provider, {"auto", "native", "vendor"},
               "Kernels: heddle's own, the vendor library's, or the faster of both");
  flags.toggle("--tf32", &o.tf32,
               "Let cuBLAS and cuDNN round the factors of fp32 products to 10 bits, for tensor "
               "cores");
  flags.choice("--graph", &o.graph, {"auto", "on", "off"},
               "Replay the training step as a CUDA graph; auto: on CUDA devices. Never changes "
               "results");
  flags.integer("--seed", &o.seed, 0, std::numeric_limits<int64_t>::max(),
                "Decides initial weights, order, augmentation and dropout");
  flags.toggle("--list-devices", &o.list_devices, "Print the devices of this machine, then exit");
}

void declare_run(apps::FlagSet& flags, Options& o) {
  flags.group("Run");
  flags.text("--out", &o.out, "DIR", "Folder for results (default: runs/MODEL-TIME)");
  flags.toggle("--overwrite", &o.overwrite, "Replace the run that --out holds");
  flags.optional_text("--resume", &o.resume, &o.resume_file, "FILE",
                      "Continue a run from its checkpoint (default: the one in --out)");
  flags.integer("--save-every", &o.save_every, 1, kMany,
                "Save a checkpoint after every N steps too, not only after epochs");
  flags.toggle("--eval-only", &o.eval_only,
               "Measure accuracy (with --init or --resume), no training");
  flags.text("--trace", &o.trace, "FILE",
             "Write what every thread and stream did, for ui.perfetto.dev");
  flags.toggle("--quiet,-q", &o.quiet, "Print warnings, errors and the result only");
}

void need(bool condition, const std::string& message) {
  if (!condition) throw UsageError(message);
}

bool on_cuda(const Options& o) { return device_of(o).type == DeviceType::kCuda; }

void check_training(const apps::FlagSet& flags, const Options& o) {
  const bool sgd = o.optimizer == "sgd";
  need(o.staging != "resident" || on_cuda(o),
       fmt::format("--staging resident needs CUDA devices, --devices is {}", o.devices));
  flags.only_with({"--staging"}, on_cuda(o), "CUDA --devices");
  flags.only_with({"--momentum", "--nesterov"}, sgd, "--optimizer sgd");
  flags.only_with({"--beta1", "--beta2", "--eps"}, !sgd, "--optimizer adam or adamw");
  need(!o.nesterov || o.momentum > 0, "--nesterov needs --momentum greater than 0");
  need(o.accumulate <= o.batch_size,
       fmt::format("--accumulate: \"{}\" is not allowed, expected at most --batch-size, {}",
                   o.accumulate, o.batch_size));
  need(!(o.shards > 0 && o.accumulate > 1),
       "--shards contradicts --accumulate: both say how a batch is cut");
  need(!(o.sync_batch_norm && o.accumulate > 1),
       "--sync-batch-norm contradicts --accumulate, which saves the memory that it needs: "
       "it holds the activations of all parts of a batch at a time");
  need(!(o.sync_batch_norm && o.shards > kMostSyncShards),
       fmt::format("--sync-batch-norm needs at most {} --shards, {} are asked for", kMostSyncShards,
                   o.shards));
  need(!(o.exchange == "ring" && o.shards > 0),
       "--exchange ring contradicts --shards: the ring's order of sums, and so the last bits, "
       "depend on the number of devices");
  flags.only_with({"--exchange"}, o.devices == "all" || parse_devices(o.devices).size() > 1,
                  "several --devices");
  need(o.graph != "on" || on_cuda(o),
       fmt::format("--graph on needs CUDA devices, --devices is {}", o.devices));
  need(o.graph != "on" || !o.sync_batch_norm,
       "--graph on contradicts --sync-batch-norm, whose shards wait for each other on the host");
  flags.only_with({"--lr-step", "--lr-gamma"}, o.schedule == "step", "--schedule step");
  flags.only_with({"--lr-min"}, o.schedule == "cosine", "--schedule cosine");
  flags.only_with({"--peak-at"}, o.schedule == "one_cycle", "--schedule one_cycle");
  need(o.lr_min <= o.lr,
       fmt::format("--lr-min: \"{}\" is not allowed, expected at most --lr, {}", o.lr_min, o.lr));
  need(o.schedule != "one_cycle" || o.warmup == 0,
       "--warmup contradicts --schedule one_cycle, which has its own rise (--peak-at)");
}

/// --list-devices, --summary and --eval-only do something other than train: what only training
/// reads is refused beside them.
void check_actions(const apps::FlagSet& flags, const Options& o) {
  flags.only_beside("--list-devices", {"--quiet"});
  flags.only_beside("--summary", {"--model", "--batch-size", "--resume", "--out", "--quiet"});
  flags.only_beside("--eval-only",
                    {"--data", "--download", "--allow-small", "--limit", "--workers", "--staging",
                     "--model", "--init", "--batch-size", "--devices", "--threads", "--precision",
                     "--provider", "--tf32", "--out", "--resume", "--trace", "--quiet"});
  need(!o.eval_only || o.resume || !o.init.empty(),
       "--eval-only needs weights: --init FILE or --resume [FILE]");
  if (o.eval_only || o.summary)
    flags.only_with({"--out"}, o.resume && o.resume_file.empty(),
                    fmt::format("--resume, where {} writes nothing",
                                o.eval_only ? "--eval-only" : "--summary"));
  flags.only_with({"--tf32"}, on_cuda(o) && o.provider != "native",
                  "CUDA devices and --provider auto or vendor");
  const size_t devices = parse_devices(o.devices).size();
  need(!o.eval_only || devices == 1,
       fmt::format("--eval-only runs on one device, --devices names {}", devices));
}

// Flags that say what this call does, and not what the run is.
const std::set<std::string> kOfThisCall{"--download",     "--summary",   "--out",
                                        "--resume",       "--overwrite", "--trace",
                                        "--list-devices", "--eval-only"};

}  // namespace

Device device_of(const Options& options) { return parse_devices(options.devices).front(); }

int workers_of(const Options& options) { return apps::parse_workers(options.workers).value(); }

bool uses_graph(const Options& o) {
  return o.graph == "on" ||
         (o.graph == "auto" && on_cuda(o) && !o.sync_batch_norm && !wants_sync());
}

DType dtype_of(const Options& options) {
  if (options.precision == "bf16") return DType::kBFloat16;
  return options.precision == "fp16" ? DType::kFloat16 : DType::kFloat32;
}

void declare_flags(apps::FlagSet& flags, Options& options) {
  declare_data(flags, options);
  declare_model(flags, options);
  declare_training(flags, options);
  declare_schedule(flags, options);
  declare_machine(flags, options);
  declare_run(flags, options);
}

void check_options(const apps::FlagSet& flags, Options& o) {
  check_actions(flags, o);
  if (!o.resume) check_training(flags, o);
  need(!(o.resume && o.overwrite), "--resume contradicts --overwrite");
  need(!(o.resume && !o.init.empty()),
       "--resume contradicts --init: a checkpoint brings its own weights");
  need(!o.resume || !o.resume_file.empty() || !o.out.empty(),
       "--resume needs a checkpoint FILE, or --out with the folder of the run");
  flags.only_with({"--overwrite"}, !o.out.empty(), "--out, the folder of the run");
  flags.only_with({"--allow-small"}, !o.data.empty(), "--data");
  need(!(o.download && o.allow_small), "--download contradicts --allow-small");
  if (o.download && o.data.empty()) o.data = "cifar10";
  if (o.optimizer == "adamw" && !flags.given("--weight-decay")) o.weight_decay = 0.01;
}

std::vector<std::string> command_of(const apps::FlagSet& flags, const Options& options) {
  std::vector<std::string> command = flags.arguments(kOfThisCall);
  command.insert(command.end(), {"--out", options.out});
  return command;
}

void restore_options(apps::FlagSet& flags, Options& options,
                     const nlohmann::ordered_json& recorded) {
  static const std::set<std::string> kFree{
      "--data",    "--allow-small", "--workers",    "--epochs",  "--devices",
      "--threads", "--quiet",       "--save-every", "--staging", "--graph"};
  std::set<std::string> skip = kOfThisCall;
  if (options.download) skip.insert("--data");  // where the archive is, whatever was used before
  flags.restore(recorded, kFree, skip, "the checkpoint");
  check_training(flags, options);
}

}  // namespace heddle::train_cifar
