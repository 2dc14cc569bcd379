#include "heddle/apps/parallel_lab/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heddle::lab {
namespace {

constexpr double kWidth = 1000, kLeft = 150, kRight = 30, kTop = 110;
constexpr double kLane = 18, kReplica = 50, kBytesRow = 24;

const char* color_of(Work work) {  // Okabe and Ito's palette: told apart by colour-blind readers
  switch (work) {
    case Work::kForward:
      return "#56b4e9";
    case Work::kBackward:
      return "#0072b2";
    case Work::kCopy:
      return "#009e73";
    case Work::kHostCopy:
      return "#cc79a7";
    case Work::kSum:
      return "#d55e00";
    case Work::kUpdate:
      return "#333333";
    case Work::kWait:
      return "url(#wait)";
  }
  return "none";
}

std::string text(double x, double y, const char* anchor, const std::string& words,
                 const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y,
                     anchor, more, words);
}

std::string bar(double x, double y, double width, double height, const std::string& fill,
                const std::string& title) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\" "
      "stroke=\"white\" stroke-width=\"0.4\"><title>{}</title></rect>\n",
      x, y, std::max(width, 0.5), height, fill, title);
}

/// 1, 2 or 5 times a power of ten, so that about `count` steps make the whole.
double round_step(double whole, int count) {
  const double rough = whole / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

std::string legend() {
  std::string svg;
  double x = kLeft;
  for (const Work work : {Work::kForward, Work::kBackward, Work::kCopy, Work::kHostCopy, Work::kSum,
                          Work::kUpdate, Work::kWait}) {
    const std::string name = work_name(work);
    svg += bar(x, 66, 14, 12, color_of(work), name) + text(x + 19, 76, "start", name);
    x += 40 + 6.6 * static_cast<double>(name.size());
  }
  return svg;
}

std::string time_axis(double end, double bottom) {
  const double step = round_step(end * 1e3, 10), pixels = (kWidth - kLeft - kRight) / (end * 1e3);
  std::string svg;
  for (int i = 0; i * step <= end * 1e3 * 1.0001; ++i) {
    const double x = kLeft + i * step * pixels;
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n", x,
        kTop - 8, bottom);
    svg += text(x, bottom + 15, "middle", fmt::format("{:g}", i * step));
  }
  return svg + text((kLeft + kWidth - kRight) / 2, bottom + 33, "middle", "simulated time, ms");
}

std::string bars(const Outcome& outcome, double end) {
  const double pixels = (kWidth - kLeft - kRight) / end;
  std::string svg;
  for (const Span& span : outcome.spans) {
    const double y = kTop + span.replica * kReplica + (span.on_copy_stream ? kLane + 2 : 0);
    svg += bar(kLeft + span.begin * pixels, y, (span.end - span.begin) * pixels, kLane,
               color_of(span.work),
               fmt::format("{}: {}, {:.3f} to {:.3f} ms", work_name(span.work), span.what,
                           span.begin * 1e3, span.end * 1e3));
  }
  return svg;
}

std::string lane_names(size_t replicas) {
  std::string svg;
  for (size_t r = 0; r < replicas; ++r) {
    const double y = kTop + static_cast<double>(r) * kReplica;
    svg += text(12, y + 23, "start", fmt::format("replica {}", r), "font-weight=\"bold\"");
    svg += text(kLeft - 8, y + 13, "end", "compute") + text(kLeft - 8, y + 33, "end", "exchange");
  }
  return svg;
}

std::string byte_bars(const Outcome& outcome, double top) {
  double most = outcome.least_bytes;
  for (size_t r = 0; r < outcome.sent.size(); ++r)
    most = std::max(
        {most, static_cast<double>(outcome.sent[r]), static_cast<double>(outcome.taken[r])});
  if (most <= 0) return "";
  const double pixels = (kWidth - kLeft - kRight - 90) / most;
  std::string svg = text(12, top - 14, "start",
                         fmt::format("MB sent (green) and taken (yellow) by each replica; dashed: "
                                     "the least possible, {:.2f}",
                                     outcome.least_bytes * 1e-6),
                         "font-weight=\"bold\"");
  for (size_t r = 0; r < outcome.sent.size(); ++r) {
    const double y = top + static_cast<double>(r) * kBytesRow;
    const double sent = static_cast<double>(outcome.sent[r]);
    const double taken = static_cast<double>(outcome.taken[r]);
    svg += text(kLeft - 8, y + 14, "end", fmt::format("replica {}", r));
    svg += bar(kLeft, y, sent * pixels, 9, "#009e73", "sent");
    svg += bar(kLeft, y + 10, taken * pixels, 9, "#f0b400", "taken");
    svg += text(kLeft + std::max({sent, taken, outcome.least_bytes}) * pixels + 6, y + 14, "start",
                fmt::format("{:.2f} / {:.2f}", sent * 1e-6, taken * 1e-6));
  }
  const double x = kLeft + outcome.least_bytes * pixels;
  svg += fmt::format(
      "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#333\" "
      "stroke-width=\"1.5\" stroke-dasharray=\"5 3\"/>\n",
      x, top - 5, top + static_cast<double>(outcome.sent.size()) * kBytesRow);
  return svg;
}

}  // namespace

std::string timeline_svg(const Outcome& outcome, const std::string& title,
                         const std::string& subtitle) {
  const auto replicas = static_cast<double>(outcome.sent.size());
  const double bottom = kTop + replicas * kReplica;
  const double bytes_top = bottom + 80;
  const double height = bytes_top + replicas * kBytesRow + 20;
  const double end = outcome.step_seconds * 1.02;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
             "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
             "<defs><pattern id=\"wait\" width=\"6\" height=\"6\" "
             "patternUnits=\"userSpaceOnUse\"><rect width=\"6\" height=\"6\" fill=\"#eee\"/>"
             "<path d=\"M0 6L6 0\" stroke=\"#999\"/></pattern></defs>\n"
             "<rect width=\"{0}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
             kWidth, height) +
         text(12, 26, "start", title, "font-size=\"16\" font-weight=\"bold\"") +
         text(12, 47, "start", subtitle) + legend() + time_axis(end, bottom) + bars(outcome, end) +
         lane_names(outcome.sent.size()) + byte_bars(outcome, bytes_top) + "</svg>\n";
}

}  // namespace heddle::lab
