// The roofline picture. Source: Williams, Waterman, Patterson, "Roofline: an insightful visual
// performance model", CACM 2009.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/apps/bench_kernels/report.h"

namespace heddle::bench {
namespace {

constexpr double kWidth = 900, kHeight = 560, kLeft = 80, kRight = 30, kTop = 50, kBottom = 60;

/// Powers of ten at both ends of an axis.
struct Axis {
  int low, high;
  double from, to;  // pixels

  double at(double value) const {
    const double share = (std::log10(value) - low) / (high - low);
    return from + std::clamp(share, 0.0, 1.0) * (to - from);
  }
};

Axis axis_of(double smallest, double largest, double from, double to) {
  const int low = static_cast<int>(std::floor(std::log10(smallest)));
  const int high = static_cast<int>(std::ceil(std::log10(largest)));
  return {low, std::max(high, low + 1), from, to};
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     words);
}

std::string grid(const Axis& x, const Axis& y) {
  std::string svg;
  for (int power = x.low; power <= x.high; ++power) {
    const double at = x.at(std::pow(10.0, power));
    svg += line(at, y.from, at, y.to, "stroke=\"#ddd\"");
    svg += text(at, y.from + 20, "middle", fmt::format("{:g}", std::pow(10.0, power)));
  }
  for (int power = y.low; power <= y.high; ++power) {
    const double at = y.at(std::pow(10.0, power));
    svg += line(x.from, at, x.to, at, "stroke=\"#ddd\"");
    svg += text(x.from - 8, at + 4, "end", fmt::format("{:g}", std::pow(10.0, power)));
  }
  svg += text((x.from + x.to) / 2, kHeight - 15, "middle", "FLOP a byte that must be moved");
  svg += text(kLeft - 60, kTop - 12, "start", "GFLOP/s");
  return svg;
}

/// One roof: the slope of memory up to the flat of arithmetic.
std::string roof(const Axis& x, const Axis& y, double flops, double bandwidth, const char* color,
                 const std::string& name) {
  if (flops <= 0.0) return "";
  const double edge = flops / bandwidth, start = std::pow(10.0, x.low);
  const std::string style = fmt::format("stroke=\"{}\" stroke-width=\"2\"", color);
  return line(x.at(start), y.at(start * bandwidth * 1e-9), x.at(edge), y.at(flops * 1e-9),
              style.c_str()) +
         line(x.at(edge), y.at(flops * 1e-9), x.to, y.at(flops * 1e-9), style.c_str()) +
         text(x.to, y.at(flops * 1e-9) - 6, "end", fmt::format("{} {:.0f}", name, flops * 1e-9));
}

std::string points(const std::vector<CaseResult>& results, const Axis& x, const Axis& y) {
  std::string svg;
  for (const CaseResult& result : results) {
    const Case& c = result.measured;
    if (c.flops == 0.0) continue;
    for (const SideResult& side : result.sides) {
      const double rate = c.flops / side.timing.median() * 1e-9;
      const bool native = side.timing.side == "native", half = size_of(c.dtype) == 2;
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" stroke=\"{}\">"
          "<title>{}, {}: {:.1f} GFLOP/s, {:.0f}% of roof</title></circle>\n",
          x.at(c.flops / c.bytes), y.at(rate), native ? (half ? "#d95f02" : "#1b6ca8") : "none",
          half ? "#d95f02" : "#1b6ca8", c.name, side.timing.side, rate, side.share_of_roof * 100.0);
    }
  }
  return svg;
}

}  // namespace

std::string roofline_svg(const std::vector<CaseResult>& results, const Peaks& peaks,
                         const std::string& title) {
  double smallest = 1.0, largest = 100.0, slowest = peaks.float32 * 1e-9;
  for (const CaseResult& result : results)
    for (const SideResult& side : result.sides) {
      if (result.measured.flops == 0.0) continue;
      const double intensity = result.measured.flops / result.measured.bytes;
      smallest = std::min(smallest, intensity);
      largest = std::max(largest, intensity);
      slowest = std::min(slowest, result.measured.flops / side.timing.median() * 1e-9);
    }
  const Axis x = axis_of(smallest, largest, kLeft, kWidth - kRight);
  const Axis y =
      axis_of(slowest, std::max(peaks.float32, peaks.bfloat16) * 1e-9, kHeight - kBottom, kTop);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
             "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
             "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
             kWidth, kHeight) +
         text(kWidth / 2, 24, "middle", title) + grid(x, y) +
         roof(x, y, peaks.float32, peaks.bandwidth, "#1b6ca8", "float32") +
         roof(x, y, peaks.bfloat16, peaks.bandwidth, "#d95f02", "16 bits") + points(results, x, y) +
         text(x.to - 10, y.from - 12, "end",
              "filled: heddle's native kernels; open: vendor's. Blue float32, orange 16 bits") +
         "</svg>\n";
}

}  // namespace heddle::bench
