#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "heddle/apps/parallel_lab/options.h"

namespace heddle::lab {

std::string report_text(const Options& options, const Setup& setup, const Outcome& outcome);
nlohmann::ordered_json report_json(const nlohmann::ordered_json& flags, const Setup& setup,
                                   const Outcome& outcome);
std::string picture_title(const Options& options, const Setup& setup);
std::string picture_subtitle(const Setup& setup, const Outcome& outcome);

}  // namespace heddle::lab
