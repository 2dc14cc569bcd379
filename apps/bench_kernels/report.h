#pragma once

#include <string>
#include <vector>

#include "heddle/apps/bench_kernels/cases.h"

namespace heddle::bench {

/// What one side of a case was measured to do.
struct SideResult {
  Timing timing;
  double share_of_roof = 0.0;  ///< Of what the measured peaks allow.
  double max_error = -1.0;     ///< See max_error(); below zero where nothing was compared.
  double speedup = 0.0;        ///< Over the vendor's best; 0 where there is none.
};

struct CaseResult {
  Case measured;
  std::vector<SideResult> sides;
};

/// The least seconds in which the case's work could be done.
double least_seconds(const Case& c, const Peaks& peaks);

CaseResult run_case(const Case& c, Device device, const Rounds& rounds, const Stopwatch& stopwatch,
                    const Peaks& peaks);
void print_case(const CaseResult& result);
nlohmann::ordered_json to_json(const CaseResult& result);

/// Performance over arithmetic intensity, both logarithmic, with the roofs that were measured: SVG.
/// Cases without arithmetic worth counting are left out.
std::string roofline_svg(const std::vector<CaseResult>& results, const Peaks& peaks,
                         const std::string& title);

}  // namespace heddle::bench
