#include "heddle/apps/parallel_lab/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heddle/apps/parallel_lab/machine.h"

namespace heddle::lab {
namespace {

std::string how_it_ended(const Setup& setup, const Outcome& o) {
  if (setup.lost_replica >= 0)
    return fmt::format("replica {} is lost: {} of {} buckets are exchanged, nobody updates",
                       setup.lost_replica, o.exchanged_buckets, o.bucket_elements.size());
  return fmt::format("{:.3f} ms a step, {:.3f} of them waiting for the exchange",
                     o.step_seconds * 1e3, o.exposed_seconds * 1e3);
}

bool on_virtual_devices(const Experiment& e) {
  return !e.devices.empty() && e.devices[0].type == DeviceType::kCuda && devices_are_virtual();
}

std::string devices_text(const Experiment& e) {
  std::vector<std::string> names;
  for (const Device device : e.devices) names.push_back(device.to_string());
  if (e.devices[0].type == DeviceType::kCpu) return fmt::format("{} x cpu", names.size());
  return fmt::format("{}{}", on_virtual_devices(e) ? "virtual devices " : "",
                     fmt::join(names, ", "));
}

std::string count_of(int64_t n, const char* thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

std::string images_text(const std::vector<int64_t>& images) {
  const auto [low, high] = std::minmax_element(images.begin(), images.end());
  return *low == *high ? count_of(*low, "image") : fmt::format("{} to {} images", *low, *high);
}

/// What the bytes of a run are known by.
std::string bytes_source(const Experiment& e) {
  if (e.devices[0].type == DeviceType::kCpu)
    return "by the plans that were executed; on the CPU sums read the others' memory in place";
  return "by the plans that were executed";
}

std::string bytes_table(const std::vector<std::vector<int64_t>>& bytes, double least) {
  std::string text = fmt::format("{:<12}", "from \\ to");
  for (size_t to = 0; to < bytes.size(); ++to) text += fmt::format("{:>12}", to);
  text += fmt::format("{:>14}{:>16}\n", "bytes sent", "least possible");
  for (size_t from = 0; from < bytes.size(); ++from) {
    int64_t sent = 0;
    text += fmt::format("{:<12}", fmt::format("replica {}", from));
    for (size_t to = 0; to < bytes.size(); ++to) {
      sent += bytes[from][to];
      text += from == to ? fmt::format("{:>12}", "-") : fmt::format("{:>12}", bytes[from][to]);
    }
    text += fmt::format("{:>14}{:>16.0f}\n", sent, least);
  }
  return text;
}

struct Counted {
  int64_t between = 0;  ///< Devices, without the outputs' way to replica 0.
  int64_t to_host = 0;
  int64_t from_host = 0;
};

Counted sums_of(const RunOutcome& run) {
  Counted sums{.between = -run.output_bytes};
  const size_t host = run.counted.size() - 1;
  for (size_t a = 0; a < host; ++a) {
    for (size_t b = 0; b < host; ++b)
      if (a != b) sums.between += run.counted[a][b];
    sums.to_host += run.counted[a][host];
    sums.from_host += run.counted[host][a];
  }
  return sums;
}

std::string steps_text(const RunOutcome& run) {
  std::string text = fmt::format("{:>4}{:>10}  {:<18}{:<18}{}\n", "step", "loss", "gradients",
                                 "weights", "on all replicas");
  for (size_t i = 0; i < run.steps.size(); ++i)
    text += fmt::format("{:>4}{:>10.5f}  {:016x}  {:016x}  the same bits\n", i + 1,
                        run.steps[i].loss, run.steps[i].gradients[0], run.steps[i].weights[0]);
  return text;
}

std::string faults_text(const Experiment& e) {
  const RunOutcome& run = *e.run;
  std::string text;
  if (run.lost) {
    text += fmt::format("step {} failed after {:.1f} ms: {}\n", run.steps.size() + 1,
                        run.lost->seconds * 1e3, run.lost->error);
    text += fmt::format(
        "  {} of {} replicas' threads had ended it; weights {}; repeated without "
        "the fault: loss {:.5f}\n",
        run.lost->lanes_ended, e.devices.size(),
        run.lost->weights_unchanged ? "as before it" : "not as before it",
        run.lost->loss_of_repeat);
  }
  if (run.slept_seconds > 0)
    text += fmt::format("injected delays: {:.1f} ms\n", run.slept_seconds * 1e3);
  if (e.options.late_replica >= 0 && on_virtual_devices(e))
    text += "all copies and kernels ran as late as their order allows\n";
  if (e.options.no_peer != "none" && e.devices[0].type == DeviceType::kCpu)
    text += "logical replicas share the CPU's memory: --no-peer shows in the simulation alone\n";
  if (run.same_as_without_faults)
    text += fmt::format("the weights are {}those of a run without faults, bit for bit\n",
                        *run.same_as_without_faults ? "" : "not ");
  return text;
}

std::string counted_text(const RunOutcome& run) {
  if (run.counted.empty()) return "";
  const Counted sums = sums_of(run);
  int64_t planned = 0;
  for (const std::vector<int64_t>& row : run.bytes)
    for (const int64_t bytes : row) planned += bytes;
  return fmt::format(
      "counted by cudasim: {} bytes between devices, {} to the host, {} from it; by the plans: "
      "{}\n",
      sums.between, sums.to_host, sums.from_host, planned);
}

std::string run_text(const Experiment& e) {
  const RunOutcome& run = *e.run;
  std::string text = fmt::format(
      "Run: {} of {} on {}, {} exchange, {} a replica\n", count_of(e.options.steps, "step"),
      e.options.model, devices_text(e), exchange_kind_name(e.setup.kind), images_text(run.images));
  text += steps_text(run) + faults_text(e);
  text += fmt::format("{} in {}, {}:\n", count_of(run.exchanges, "exchange"),
                      count_of(static_cast<int64_t>(run.steps.size()), "step"), bytes_source(e));
  text += bytes_table(run.bytes, run.least_bytes) + counted_text(run);
  if (run.timeline)
    text += fmt::format("the last step took {:.3f} ms, measured by {}\n",
                        run.timeline->seconds * 1e3, run.timeline->clock);
  if (on_virtual_devices(e)) text += "times of virtual devices mean nothing: none were measured\n";
  return text;
}

std::string simulated_heading(const Experiment& e) {
  return fmt::format("Simulated: one step of {} on {}, {} exchange", e.options.model,
                     count_of(static_cast<int64_t>(e.setup.images.size()), "replica"),
                     exchange_kind_name(e.setup.kind));
}

std::string simulated_text(const Experiment& e) {
  const Outcome& o = e.simulated;
  std::string text = simulated_heading(e) + "\n" + how_it_ended(e.setup, o) + "\n";
  if (o.first_copy >= 0)
    text += fmt::format("the exchange begins at {:.3f} ms, backward ends at {:.3f} ms\n",
                        o.first_copy * 1e3, o.backward_end * 1e3);
  return text + bytes_table(o.bytes, o.least_bytes);
}

nlohmann::ordered_json spans_json(const std::vector<Span>& spans) {
  nlohmann::ordered_json result = nlohmann::ordered_json::array();
  for (const Span& span : spans)
    result.push_back({{"replica", span.replica},
                      {"stream", span.on_copy_stream ? "exchange" : "compute"},
                      {"work", work_name(span.work)},
                      {"begin_seconds", span.begin},
                      {"end_seconds", span.end},
                      {"what", span.what}});
  return result;
}

nlohmann::ordered_json simulated_json(const Setup& setup, const Outcome& o) {
  return {{"times", "simulated"},
          {"exchange", exchange_kind_name(setup.kind)},
          {"completed", setup.lost_replica < 0},
          {"step_seconds", o.step_seconds},
          {"compute_seconds", o.compute_seconds},
          {"exposed_seconds", o.exposed_seconds},
          {"first_copy_seconds", o.first_copy},
          {"backward_end_seconds", o.backward_end},
          {"buckets", o.bucket_elements},
          {"exchanged_buckets", o.exchanged_buckets},
          {"bytes_by_link", o.bytes},
          {"bytes_sent", o.sent},
          {"bytes_taken", o.taken},
          {"least_bytes", o.least_bytes},
          {"spans", spans_json(o.spans)}};
}

nlohmann::ordered_json steps_json(const RunOutcome& run) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  const auto hex = [](const std::vector<uint64_t>& prints) {
    std::vector<std::string> texts;
    for (const uint64_t print : prints) texts.push_back(fmt::format("{:016x}", print));
    return texts;
  };
  for (const StepRecord& step : run.steps)
    steps.push_back(
        {{"loss", step.loss}, {"gradients", hex(step.gradients)}, {"weights", hex(step.weights)}});
  return steps;
}

nlohmann::ordered_json run_json(const Experiment& e) {
  const RunOutcome& run = *e.run;
  std::vector<std::string> names;
  for (const Device device : e.devices) names.push_back(device.to_string());
  nlohmann::ordered_json json = {{"devices", names},
                                 {"virtual", on_virtual_devices(e)},
                                 {"exchange", exchange_kind_name(e.setup.kind)},
                                 {"images", run.images},
                                 {"steps", steps_json(run)},
                                 {"exchanges", run.exchanges},
                                 {"bytes_by_link", run.bytes},
                                 {"bytes_known", bytes_source(e)},
                                 {"least_bytes", run.least_bytes},
                                 {"injected_delay_seconds", run.slept_seconds}};
  if (!run.counted.empty()) {
    const Counted sums = sums_of(run);
    json["counted"] = {{"bytes_by_link_host_last", run.counted},
                       {"output_bytes", run.output_bytes},
                       {"between_devices", sums.between},
                       {"to_host", sums.to_host},
                       {"from_host", sums.from_host}};
  }
  if (run.lost)
    json["lost"] = {{"error", run.lost->error},
                    {"seconds", run.lost->seconds},
                    {"lanes_ended", run.lost->lanes_ended},
                    {"weights_unchanged", run.lost->weights_unchanged},
                    {"loss_of_repeat", run.lost->loss_of_repeat}};
  if (run.same_as_without_faults) json["same_as_without_faults"] = *run.same_as_without_faults;
  if (run.timeline)
    json["timeline"] = {{"times", "measured by " + run.timeline->clock},
                        {"seconds", run.timeline->seconds},
                        {"spans", spans_json(run.timeline->spans)}};
  return json;
}

/// The picture's second line.
std::string subtitle(const Experiment& e) {
  const std::string share =
      fmt::format("{} a replica, {}", images_text(e.setup.images),
                  count_of(static_cast<int64_t>(e.simulated.bucket_elements.size()), "bucket"));
  if (!e.run) return share + "; nothing ran";
  if (e.run->lost) return fmt::format("{}; the last step failed: {}", share, e.run->lost->error);
  return fmt::format("{}; ran {} on {}: all replicas have the same bits", share,
                     count_of(e.options.steps, "step"), devices_text(e));
}

}  // namespace

std::string report_text(const Experiment& e) {
  const std::string simulated = simulated_text(e);
  return e.run ? run_text(e) + "\n" + simulated : simulated;
}

nlohmann::ordered_json report_json(const nlohmann::ordered_json& flags, const Experiment& e) {
  nlohmann::ordered_json json = {{"flags", flags},
                                 {"simulated", simulated_json(e.setup, e.simulated)}};
  if (e.run) json["run"] = run_json(e);
  return json;
}

Picture picture_of(const Experiment& e) {
  Picture picture;
  picture.title = fmt::format("Data parallelism: {} on {}, {} exchange", e.options.model,
                              count_of(static_cast<int64_t>(e.setup.images.size()), "replica"),
                              exchange_kind_name(e.setup.kind));
  picture.subtitle = subtitle(e);
  picture.panels.push_back({fmt::format("Simulated: a step on devices of {:g} TFLOP/s; {}",
                                        e.options.tflops, how_it_ended(e.setup, e.simulated)),
                            "simulated time, ms", e.simulated.spans, e.simulated.step_seconds});
  picture.bytes_heading = "Bytes of the simulated step";
  picture.bytes = e.simulated.bytes;
  picture.least_bytes = e.simulated.least_bytes;
  if (!e.run) return picture;
  const RunOutcome& run = *e.run;
  if (run.timeline)
    picture.panels.push_back(
        {fmt::format("Measured: the last step on {}, by {}", devices_text(e), run.timeline->clock),
         "measured time, ms", run.timeline->spans, run.timeline->seconds});
  if (run.exchanges == 0) return picture;
  picture.bytes_heading =
      fmt::format("Bytes carried in {} of the run, {}",
                  count_of(static_cast<int64_t>(run.steps.size()), "step"), bytes_source(e));
  picture.bytes = run.bytes;
  picture.least_bytes = run.least_bytes;
  return picture;
}

}  // namespace heddle::lab
