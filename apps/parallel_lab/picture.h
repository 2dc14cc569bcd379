#pragma once

#include <string>
#include <vector>

#include "heddle/apps/parallel_lab/simulate.h"

namespace heddle::lab {

/// One timeline: two rows for each replica.
struct Panel {
  std::string heading;  ///< Says whether its times are simulated or measured.
  std::string axis;     ///< "simulated time, ms"
  std::vector<Span> spans;
  double seconds = 0;
};

struct Picture {
  std::string title, subtitle;
  std::vector<Panel> panels;
  std::string bytes_heading;
  std::vector<std::vector<int64_t>> bytes;  ///< (from, to), replicas
  double least_bytes = 0;                   ///< That each replica must send, and take.
};

/// As SVG.
std::string draw(const Picture& picture);

}  // namespace heddle::lab
