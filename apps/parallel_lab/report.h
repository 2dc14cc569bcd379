#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "heddle/apps/parallel_lab/options.h"
#include "heddle/apps/parallel_lab/picture.h"
#include "heddle/apps/parallel_lab/run.h"

namespace heddle::lab {

/// All that was asked and found.
struct Experiment {
  Options options;
  std::vector<Device> devices;  ///< That ran it; none: nothing ran.
  Setup setup;
  Outcome simulated;
  std::optional<RunOutcome> run;
};

std::string report_text(const Experiment& experiment);
nlohmann::ordered_json report_json(const nlohmann::ordered_json& flags,
                                   const Experiment& experiment);
Picture picture_of(const Experiment& experiment);

}  // namespace heddle::lab
