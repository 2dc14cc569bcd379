#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/apps/support/flags.h"
#include "heddle/core/device.h"
#include "heddle/core/dtype.h"

namespace heddle::train_cifar {

/// Everything that the command line can say, with its defaults.
struct Options {
  // Data
  std::string data;  ///< Folder of the CIFAR-10 binary files; empty: a generated set.
  bool download = false;
  bool allow_small = false;
  int64_t limit = 0;  ///< 0: all samples.
  std::string augment = "none";
  std::string workers = "auto";
  std::string staging = "uint8";
  // Model
  std::string model = "simple_cnn";
  std::string init;
  bool summary = false;
  // Training
  int64_t epochs = 3;
  int64_t batch_size = 64;
  int64_t accumulate = 1;
  std::string optimizer = "adam";
  double lr = 1e-3;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double label_smoothing = 0.0;
  double clip_norm = 0.0;  ///< 0: no clipping.
  // Schedule
  std::string schedule = "constant";
  int64_t warmup = 0;   ///< Units: steps.
  int64_t lr_step = 1;  ///< Units: epochs.
  double lr_gamma = 0.1;
  double lr_min = 0.0;
  double peak_at = 0.3;
  // Machine
  std::string devices = "cpu";
  int64_t shards = 0;  ///< 0: one a device, or --accumulate of them.
  bool sync_batch_norm = false;
  std::string exchange = "auto";
  int64_t threads = 0;  ///< 0: the processors that this process may use.
  std::string precision = "fp32";
  std::string provider = "auto";
  bool tf32 = false;
  std::string graph = "auto";
  int64_t seed = 0;
  // Run
  std::string out;
  bool overwrite = false;
  bool resume = false;
  std::string resume_file;
  int64_t save_every = 0;  ///< Units: steps; 0: at the ends of epochs only.
  bool eval_only = false;
  bool list_devices = false;
  std::string trace;  ///< Empty: none.
  bool quiet = false;
};

/// Declares the flags; values land in `options`.
void declare_flags(apps::FlagSet& flags, Options& options);

/// Checks what single values cannot show: flags that contradict each other, or that mean nothing
/// together. Fills in defaults that follow from other flags (AdamW's weight decay, --download's
/// folder). Errors: UsageError naming the flags.
void check_options(const apps::FlagSet& flags, Options& options);

/// Where to compute; the first of several devices. Errors: UsageError.
Device device_of(const Options& options);
/// Threads that prepare batches, or kAutoWorkers.
int workers_of(const Options& options);
/// Of convolutions and products, from --precision.
DType dtype_of(const Options& options);

/// Whether steps are captured as CUDA graphs: --graph on, or auto on CUDA devices where batch-norms
/// are not synchronised and HEDDLE_SYNC does not want to know the kernel that fails, which a graph
/// hides.
bool uses_graph(const Options& options);

/// Takes over what a checkpoint records of its run's flags. A flag that says where or for how long
/// to run stands where it was given; one that says what is computed must not differ.
/// Errors: UsageError naming flag and both values; those of check_options.
void restore_options(apps::FlagSet& flags, Options& options,
                     const nlohmann::ordered_json& recorded);

/// The arguments that make this run from its beginning, into `options.out`, however often it was
/// resumed.
std::vector<std::string> command_of(const apps::FlagSet& flags, const Options& options);

}  // namespace heddle::train_cifar
