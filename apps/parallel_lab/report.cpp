#include "heddle/apps/parallel_lab/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::lab {
namespace {

std::string how_it_ended(const Setup& setup, const Outcome& o) {
  if (setup.lost_replica >= 0)
    return fmt::format("replica {} is lost: {} of {} buckets were exchanged, nobody updates",
                       setup.lost_replica, o.exchanged_buckets, o.bucket_elements.size());
  return fmt::format("{:.3f} ms a step, {:.3f} of them waiting for the exchange",
                     o.step_seconds * 1e3, o.exposed_seconds * 1e3);
}

}  // namespace

std::string picture_title(const Options& options, const Setup& setup) {
  return fmt::format("Simulated: one step of {} on {} replicas, {} exchange", options.model,
                     setup.images.size(), exchange_kind_name(setup.kind));
}

std::string picture_subtitle(const Setup& setup, const Outcome& outcome) {
  const auto [low, high] = std::minmax_element(setup.images.begin(), setup.images.end());
  return fmt::format("{} images a replica, {} buckets; {}",
                     *low == *high ? fmt::format("{}", *low) : fmt::format("{} to {}", *low, *high),
                     outcome.bucket_elements.size(), how_it_ended(setup, outcome));
}

std::string report_text(const Options& options, const Setup& setup, const Outcome& o) {
  std::string text = picture_title(options, setup) + "\n" + how_it_ended(setup, o) + "\n";
  if (o.first_copy >= 0)
    text += fmt::format("the exchange begins at {:.3f} ms, backward ends at {:.3f} ms\n",
                        o.first_copy * 1e3, o.backward_end * 1e3);
  text += fmt::format("{:<10}{:>8}{:>12}{:>12}{:>16}\n", "replica", "images", "MB sent", "MB taken",
                      "least possible");
  for (size_t r = 0; r < o.sent.size(); ++r)
    text += fmt::format("{:<10}{:>8}{:>12.3f}{:>12.3f}{:>16.3f}\n", r, setup.images[r],
                        static_cast<double>(o.sent[r]) * 1e-6,
                        static_cast<double>(o.taken[r]) * 1e-6, o.least_bytes * 1e-6);
  return text;
}

nlohmann::ordered_json report_json(const nlohmann::ordered_json& flags, const Setup& setup,
                                   const Outcome& o) {
  nlohmann::ordered_json spans = nlohmann::ordered_json::array();
  for (const Span& span : o.spans)
    spans.push_back({{"replica", span.replica},
                     {"stream", span.on_copy_stream ? "exchange" : "compute"},
                     {"work", work_name(span.work)},
                     {"begin_seconds", span.begin},
                     {"end_seconds", span.end},
                     {"what", span.what}});
  return {{"simulated", true},
          {"flags", flags},
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
          {"spans", spans}};
}

}  // namespace heddle::lab
