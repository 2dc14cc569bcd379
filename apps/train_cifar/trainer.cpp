#include "heddle/apps/train_cifar/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "heddle/apps/support/streams.h"
#include "heddle/apps/train_cifar/checkpoint.h"
#include "heddle/apps/train_cifar/finite.h"
#include "heddle/apps/train_cifar/report.h"
#include "heddle/apps/train_cifar/signals.h"
#include "heddle/core/version.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/provider.h"
#include "heddle/nn/checkpoint/atomic_file.h"

namespace heddle::train_cifar {
namespace {

using Clock = std::chrono::steady_clock;

/// The seconds since the last call.
class Lap {
 public:
  double operator()() {
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  Clock::time_point last_ = Clock::now();
};

}  // namespace

nlohmann::ordered_json RunRecord::to_json() const {
  return {{"heddle", version()},
          {"command", command},
          {"settings", settings},
          {"data", data},
          {"isa", cpu::name_of(cpu::active_isa())},
          {"onednn", built_with_onednn()},
          {"n_threads", num_threads()},
          {"provider_choices", provider_choices()}};
}

Trainer::Trainer(const Options& options, const DataSets& data, TrainingParts parts,
                 RunRecord record, RunState state)
    : options_(options),
      parts_(std::move(parts)),
      record_(std::move(record)),
      state_(state),
      train_loader_(train_loader(data, options,
                                 [this](LoaderOptions& loader) {
                                   if (parts_.replicas != nullptr) parts_.replicas->feed(loader);
                                 })),
      test_loader_(test_loader(data, options)),
      progress_(isatty(STDOUT_FILENO) == 1, options.quiet) {}

Trainer::Outcome Trainer::run() {
  // From here on there is always a checkpoint to go back to.
  if (!std::filesystem::exists(parts_.folder.checkpoint())) save();
  begin_interruptible();
  if (!options_.quiet) print_table_head();
  Evaluation last;
  while (state_.epochs_done < options_.epochs) {
    train_epoch();
    if (interrupted()) return stop();
    last = evaluate(parts_.model, test_loader_);
    if (!last.complete) return stop();
    finish_epoch(last);
  }
  print_classes(last, test_loader_.dataset().class_names());
  return Outcome::kDone;
}

void Trainer::train_epoch() {
  parts_.model.train();
  const int64_t n_batches = train_loader_.size();
  if (state_.batches_done >= n_batches) return;
  const std::string title = fmt::format("epoch {}/{}", state_.epochs_done + 1, options_.epochs);
  progress_.begin(title, state_.batches_done, n_batches);
  const int64_t samples_before = state_.n_samples;
  train_loader_.set_position({state_.epochs_done, state_.batches_done});
  Lap lap;
  PhaseTimer phases(device_of(options_));
  LoaderIterator next = [&] {
    const PhaseSpan waiting(Phase::kData, "wait for data");
    return train_loader_.begin();
  }();
  while (next != train_loader_.end() && !interrupted()) {
    state_.data_seconds += lap();
    take_step(*next);
    state_.step_seconds += lap();
    const double n = static_cast<double>(std::max<int64_t>(1, state_.n_samples));
    progress_.update(state_.batches_done, state_.loss_sum / n, state_.n_samples - samples_before);
    const bool due = options_.save_every > 0 && state_.step % options_.save_every == 0;
    if (due) state_.phases += phases.take();
    if (due && !interrupted()) save();
    if (interrupted()) break;
    lap();
    const PhaseSpan waiting(Phase::kData, "wait for data");
    ++next;
  }
  state_.phases += phases.take();
  progress_.end();
}

void Trainer::take_step(const Batch& batch) {
  const TraceSpan span("step", "step", state_.step + 1);
  const double lr_scale = parts_.schedule.factor(state_.step);
  const StepResult result = parts_.replicas != nullptr
                                ? parts_.replicas->run(batch, state_.step, lr_scale)
                                : parts_.step.run(batch, state_.step, lr_scale);
  ++state_.batches_done;
  if (!result.taken) return note_skip();
  ++state_.step;
  state_.n_samples += batch.size();
  state_.n_correct += result.n_correct;
  state_.loss_sum += result.loss * static_cast<double>(batch.size());
  parts_.folder.append_metrics({{"event", "step"},
                                {"step", state_.step},
                                {"epoch", state_.epochs_done + 1},
                                {"samples", batch.size()},
                                {"loss", result.loss},
                                {"lr", parts_.optimizer.lr()}});
}

/// The batch is spent, but neither the step nor the schedule moves.
void Trainer::note_skip() {
  parts_.folder.append_metrics({{"event", "skip"},
                                {"step", state_.step},
                                {"epoch", state_.epochs_done + 1},
                                {"scale", parts_.step.scaler()->get_scale()}});
}

void Trainer::finish_epoch(const Evaluation& evaluation) {
  const double n = static_cast<double>(std::max<int64_t>(1, state_.n_samples));
  const StepTimes split = account_for(state_.phases, state_.data_seconds + state_.step_seconds);
  const LoaderSize loader = train_loader_.in_use();
  const EpochSummary summary{
      .epoch = state_.epochs_done + 1,
      .n_epochs = options_.epochs,
      .step = state_.step,
      .lr = options_.lr * parts_.schedule.factor(std::max<int64_t>(0, state_.step - 1)),
      .train_loss = state_.loss_sum / n,
      .train_accuracy = static_cast<double>(state_.n_correct) / n,
      .test_loss = evaluation.loss,
      .test_accuracy = evaluation.accuracy(),
      .data_seconds = state_.data_seconds,
      .step_seconds = state_.step_seconds,
      .eval_seconds = evaluation.seconds,
      .loader = loader,
      .split = split,
      .verdict = verdict(split, device_of(options_), loader.workers,
                         workers_of(options_) == kAutoWorkers)};
  parts_.folder.append_metrics(to_json(summary));
  state_.begin_next_epoch();
  save();
  if (!options_.quiet) print_table_row(summary);
}

void Trainer::save() {
  const TraceSpan span("save", "step");
  nlohmann::ordered_json record = record_.to_json();
  const std::string config = record.dump(2) + "\n";
  record["state"] = to_json(state_);
  if (GradScaler* scaler = parts_.step.scaler()) record["scaler"] = to_json(scaler->state());
  try {
    check_state_finite(parts_.model);
    if (parts_.replicas != nullptr) parts_.replicas->check();
    save_checkpoint(parts_.folder.checkpoint(), parts_.model, parts_.optimizer, record);
  } catch (const Error& error) {
    const bool kept = std::filesystem::exists(parts_.folder.checkpoint());
    fail("step {}: {}{}", state_.step, error.what(), kept ? "; the last checkpoint is kept" : "");
  }
  save_safetensors(parts_.folder.model(), parts_.model.state());
  write_file_atomically(parts_.folder.config(), config);
}

Trainer::Outcome Trainer::stop() {
  save();
  apps::print_error("train_cifar", fmt::format("stopped after step {} (epoch {}); continue with "
                                               "--resume --out {}",
                                               state_.step, state_.epochs_done + 1,
                                               parts_.folder.path().string()));
  return Outcome::kInterrupted;
}

}  // namespace heddle::train_cifar
