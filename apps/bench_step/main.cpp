#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "heddle/apps/bench_step/process.h"
#include "heddle/apps/bench_step/sides.h"
#include "heddle/apps/support/bench.h"
#include "heddle/apps/support/flags.h"
#include "heddle/apps/support/output_file.h"
#include "heddle/apps/support/program.h"
#include "heddle/core/memory.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/provider.h"

namespace heddle::bench {
namespace {

constexpr int64_t kFaultSteps = 10;  // steady steps whose page faults are counted
constexpr int kFaultTries = 3;
constexpr double kSampleSeconds = 0.15;

struct Options {
  std::string model = "all", dtype = "all", side = "all", provider = "auto", isa = "best", json;
  int64_t batch = 0, rounds = 7, threads = 0;
};

bool has_own_side(const std::string& side) { return side == "all" || side == kOwnSide; }

bool parse(const std::vector<std::string>& arguments, Options& o) {
  apps::FlagSet flags("bench_step",
                      "Times whole training steps (forward, loss, backward, Adam) of heddle beside "
                      "the same steps made of oneDNN's primitives alone. Sides run in turn.");
  flags.choice("--model", &o.model, {"all", "simple_cnn", "resnet18"}, "What is trained");
  flags.integer("--batch-size,--batch", &o.batch, 0, 65536, "Samples in a step; 0: 64 and 256");
  flags.choice("--dtype", &o.dtype, {"all", "float32", "bfloat16"},
               "all: bfloat16 too where the processor has units for it");
  flags.choice("--side", &o.side, {"all", kOwnSide, kRawInnerProduct, kRawPlain},
               "One side alone, or all in turn");
  flags.choice("--provider", &o.provider, {"auto", "native", "vendor"}, "Of heddle's kernels");
  flags.choice("--isa", &o.isa, {"best", "baseline", "avx2", "avx512"},
               "Instruction set of every side");
  flags.integer("--threads", &o.threads, 0, 1024, "Threads of every side; 0: all processors");
  flags.integer("--rounds", &o.rounds, 5, 1000, "Rounds of each step");
  flags.text("--json", &o.json, "FILE",
             "Write the figures there (-: to standard output, in place of the table)");
  if (flags.parse(arguments, HEDDLE_VERSION) == apps::ParseResult::kDone) return false;
  flags.only_with({"--provider"}, has_own_side(o.side), "--side all or heddle");
  return true;
}

std::vector<StepWork> selected_work(const Options& o) {
  std::vector<StepWork> work;
  for (const char* model : {"simple_cnn", "resnet18"})
    for (const int64_t batch : {int64_t{64}, int64_t{256}})
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        if (o.model != "all" && o.model != model) continue;
        if (o.batch != 0 && batch != 64) continue;  // the size that was given, once
        if (o.dtype == "all" && dtype == DType::kBFloat16 && !onednn_has_bfloat16()) continue;
        if (o.dtype != "all" && o.dtype != name_of(dtype)) continue;
        work.push_back({model, o.batch != 0 ? o.batch : batch, dtype});
      }
  return work;
}

std::vector<std::string> selected_raw_sides(const StepWork& work, const std::string& side) {
  std::vector<std::string> names = raw_side_names(work);
  if (side != "all") std::erase_if(names, [&](const std::string& name) { return name != side; });
  if (names.empty() && !has_own_side(side))
    throw UsageError(fmt::format("--side {}: this build and processor have no oneDNN step of {}",
                                 side, work.name()));
  return names;
}

std::vector<StepSide> selected_sides(const StepWork& work, const std::string& side) {
  std::vector<StepSide> sides;
  if (has_own_side(side)) sides.push_back(own_side(work));
  for (const std::string& name : selected_raw_sides(work, side))
    sides.push_back(raw_side(work, name));
  return sides;
}

/// The least of a few tries: where the other sides ran in between, malloc's heap of small objects
/// takes some steps until it grows no more.
double faults_per_step(const StepSide& side) {
  side.step();
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int attempt = 0; attempt < kFaultTries && least > 0; ++attempt) {
    const int64_t before = minor_page_faults();
    for (int64_t i = 0; i < kFaultSteps; ++i) side.step();
    least = std::min(least, minor_page_faults() - before);
  }
  return static_cast<double>(least) / static_cast<double>(kFaultSteps);
}

/// The peak memory of a process that takes the steps of this side alone.
int64_t peak_memory_alone(const StepWork& work, const std::string& side, const Options& o) {
  std::vector<std::string> flags{"--side",       side,
                                 "--model",      work.model,
                                 "--batch-size", std::to_string(work.batch),
                                 "--dtype",      std::string(name_of(work.dtype)),
                                 "--isa",        o.isa,
                                 "--threads",    std::to_string(o.threads),
                                 "--rounds",     "5",
                                 "--json",       "-"};
  if (has_own_side(side)) flags.insert(flags.end(), {"--provider", o.provider});
  const std::string output = run_self(flags);
  return nlohmann::json::parse(output)["steps"][0]["sides"][0]["peak_memory_bytes"];
}

const Timing* best_raw(const std::vector<Timing>& timings) {
  const Timing* best = nullptr;
  for (const Timing& timing : timings)
    if (timing.side != kOwnSide && (best == nullptr || timing.median() < best->median()))
      best = &timing;
  return best;
}

nlohmann::ordered_json run_work(const StepWork& work, const Options& o) {
  const bool alone = o.side != "all";
  std::vector<StepSide> sides = selected_sides(work, o.side);
  std::vector<Side> timed;
  for (const StepSide& side : sides) timed.push_back({side.name, side.step});
  const double sample_seconds = alone ? 0.0 : kSampleSeconds;
  const std::vector<Timing> timings = measure(timed, {o.rounds, sample_seconds});
  const Timing* const raw = best_raw(timings);

  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  Table table(
      {work.name(), "ms", "images/s", "vs best raw", "spread", "page faults", "peak MiB", "loss"});
  for (size_t i = 0; i < sides.size(); ++i) {
    const Timing& timing = timings[i];
    const double faults = faults_per_step(sides[i]), loss = sides[i].loss();
    const int64_t peak = alone ? peak_resident_bytes() : peak_memory_alone(work, timing.side, o);
    const double rate = static_cast<double>(work.batch) / timing.median();
    nlohmann::ordered_json side = to_json(timing);
    side.update({{"images_per_second", rate},
                 {"minor_page_faults_per_step", faults},
                 {"peak_memory_bytes", peak},
                 {"loss", loss}});
    if (raw != nullptr) side["speedup_over_best_raw"] = speedup(timing, *raw);
    table.row({"  " + timing.side, fmt::format("{:.2f}", timing.median() * 1e3),
               fmt::format("{:.0f}", rate),
               raw != nullptr ? fmt::format("{:.2f}", speedup(timing, *raw)) : "",
               fmt::format("{:.0f}%", timing.spread() * 100.0), fmt::format("{:.1f}", faults),
               fmt::format("{:.0f}", static_cast<double>(peak) / (1 << 20)),
               fmt::format("{:.3f}", loss)});
    results.push_back(std::move(side));
  }
  if (o.json != "-") table.print();
  return {{"model", work.model},
          {"batch", work.batch},
          {"dtype", name_of(work.dtype)},
          {"sides", std::move(results)}};
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  if (!parse(arguments, options)) return 0;
  apps::check_output_file("--json", options.json);
  if (options.threads > 0) set_num_threads(static_cast<int>(options.threads));
  if (options.isa != "best") cpu::set_active_isa(cpu::parse_isa(options.isa));
  limit_onednn_to_active_isa();
  set_provider(parse_provider(options.provider));
  const std::vector<StepWork> works = selected_work(options);
  for (const StepWork& work : works) selected_raw_sides(work, options.side);  // or it is refused
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const StepWork& work : works) {
    steps.push_back(run_work(work, options));
    memory::release_cached(Device::cpu());
  }
  if (!options.json.empty())
    write_json(options.json, {{"machine", describe_machine()},
                              {"provider", options.provider},
                              {"steps", std::move(steps)},
                              {"provider_choices", provider_choices()}});
  return 0;
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  return heddle::apps::run_program("bench_step", [&] {
    return heddle::bench::run({argv + 1, argv + argc});
  });
}
