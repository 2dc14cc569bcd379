#pragma once

#include <string>

#include "heddle/apps/parallel_lab/simulate.h"

namespace heddle::lab {

/// The timeline of the step and the bytes that each replica carried, as SVG.
std::string timeline_svg(const Outcome& outcome, const std::string& title,
                         const std::string& subtitle);

}  // namespace heddle::lab
