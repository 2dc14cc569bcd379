#include "heddle/apps/parallel_lab/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heddle::lab {
namespace {

constexpr double kWidth = 1000, kLeft = 150, kRight = 30;
constexpr double kLane = 18, kReplica = 50, kLegendRow = 20;
constexpr double kBytesRow = 26, kBytesRight = 560;                    // bars, left
constexpr double kTableLeft = 680, kTableRight = 980, kTableRow = 24;  // links, right
constexpr Work kWorks[] = {Work::kForward,  Work::kBackward, Work::kCopy,
                           Work::kHostCopy, Work::kSum,      Work::kExchange,
                           Work::kUpdate,   Work::kWait,     Work::kDelay};

const char* color_of(Work work) {  // Okabe and Ito's palette: told apart by colour-blind readers
  switch (work) {
    case Work::kForward:
      return "#56b4e9";
    case Work::kBackward:
      return "#0072b2";
    case Work::kCopy:
      return "#009e73";
    case Work::kExchange:
      return "#00664b";
    case Work::kHostCopy:
      return "#cc79a7";
    case Work::kSum:
      return "#d55e00";
    case Work::kUpdate:
      return "#333333";
    case Work::kWait:
      return "url(#wait)";
    case Work::kDelay:
      return "#f0e442";
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

/// What occurs in the picture, in as many rows as it takes. Moves `top` below.
std::string legend(const Picture& picture, double& top) {
  std::string svg;
  double x = kLeft;
  for (const Work work : kWorks) {
    const auto is_there = [work](const Panel& panel) {
      return std::any_of(panel.spans.begin(), panel.spans.end(),
                         [work](const Span& span) { return span.work == work; });
    };
    if (std::none_of(picture.panels.begin(), picture.panels.end(), is_there)) continue;
    const std::string name = work_name(work);
    const double width = 40 + 6.6 * static_cast<double>(name.size());
    if (x + width > kWidth - kRight) {
      x = kLeft;
      top += kLegendRow;
    }
    svg += bar(x, top, 14, 12, color_of(work), name) + text(x + 19, top + 10, "start", name);
    x += width;
  }
  top += kLegendRow;
  return svg;
}

std::string time_axis(const Panel& panel, double end, double top, double bottom) {
  const double step = round_step(end * 1e3, 10), pixels = (kWidth - kLeft - kRight) / (end * 1e3);
  std::string svg;
  for (int i = 0; i * step <= end * 1e3 * 1.0001; ++i) {
    const double x = kLeft + i * step * pixels;
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n", x,
        top - 6, bottom);
    svg += text(x, bottom + 15, "middle", fmt::format("{:g}", i * step));
  }
  return svg + text((kLeft + kWidth - kRight) / 2, bottom + 33, "middle", panel.axis);
}

std::string bars(const Panel& panel, double end, double top) {
  const double pixels = (kWidth - kLeft - kRight) / end;
  std::string svg;
  for (const Span& span : panel.spans) {
    const double y = top + span.replica * kReplica + (span.on_copy_stream ? kLane + 2 : 0);
    svg += bar(kLeft + span.begin * pixels, y, (span.end - span.begin) * pixels, kLane,
               color_of(span.work),
               fmt::format("{}: {}, {:.3f} to {:.3f} ms", work_name(span.work), span.what,
                           span.begin * 1e3, span.end * 1e3));
  }
  return svg;
}

std::string lane_names(size_t replicas, double top) {
  std::string svg;
  for (size_t r = 0; r < replicas; ++r) {
    const double y = top + static_cast<double>(r) * kReplica;
    svg += text(12, y + 23, "start", fmt::format("replica {}", r), "font-weight=\"bold\"");
    svg += text(kLeft - 8, y + 13, "end", "compute") + text(kLeft - 8, y + 33, "end", "exchange");
  }
  return svg;
}

/// Moves `top` below.
std::string draw_panel(const Panel& panel, size_t replicas, double& top) {
  const double lanes = top + 32, bottom = lanes + static_cast<double>(replicas) * kReplica;
  const double end = std::max(panel.seconds, 1e-9) * 1.02;
  const std::string svg = text(12, top + 14, "start", panel.heading, "font-weight=\"bold\"") +
                          time_axis(panel, end, lanes, bottom) + bars(panel, end, lanes) +
                          lane_names(replicas, lanes);
  top = bottom + 56;
  return svg;
}

struct Unit {
  double bytes;
  const char* name;
};
Unit unit_for(double most) {
  if (most >= 1e6) return {1e6, "MB"};
  if (most >= 1e3) return {1e3, "kB"};
  return {1, "bytes"};
}

/// In few characters.
std::string short_number(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

struct Traffic {
  std::vector<double> sent, taken;
  double most = 0;

  explicit Traffic(const Picture& picture)
      : sent(picture.bytes.size()), taken(picture.bytes.size()), most(picture.least_bytes) {
    for (size_t from = 0; from < sent.size(); ++from)
      for (size_t to = 0; to < sent.size(); ++to) {
        sent[from] += static_cast<double>(picture.bytes[from][to]);
        taken[to] += static_cast<double>(picture.bytes[from][to]);
      }
    for (size_t r = 0; r < sent.size(); ++r) most = std::max({most, sent[r], taken[r]});
  }
};

std::string byte_bars(const Picture& picture, const Traffic& traffic, Unit unit, double top) {
  const double pixels = (kBytesRight - kLeft - 100) / traffic.most;
  std::string svg = text(kLeft, top, "start",
                         fmt::format("{}: sent (green), taken (orange), least possible "
                                     "(dashed: {:.4g})",
                                     unit.name, picture.least_bytes / unit.bytes));
  const double first = top + 14;
  for (size_t r = 0; r < traffic.sent.size(); ++r) {
    const double y = first + static_cast<double>(r) * kBytesRow;
    const double sent = traffic.sent[r], taken = traffic.taken[r];
    svg += text(kLeft - 8, y + 14, "end", fmt::format("replica {}", r));
    svg += bar(kLeft, y, sent * pixels, 9, "#009e73", "sent");
    svg += bar(kLeft, y + 10, taken * pixels, 9, "#e69f00", "taken");
    svg += text(kLeft + std::max({sent, taken, picture.least_bytes}) * pixels + 6, y + 14, "start",
                fmt::format("{:.4g} / {:.4g}", sent / unit.bytes, taken / unit.bytes));
  }
  const double x = kLeft + picture.least_bytes * pixels;
  return svg + fmt::format(
                   "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
                   "stroke=\"#333\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"/>\n",
                   x, first - 4, first + static_cast<double>(traffic.sent.size()) * kBytesRow);
}

/// A table from (rows) and to (columns), shaded by bytes; numbers where they have room.
std::string link_table(const Picture& picture, Unit unit, double top) {
  const size_t n = picture.bytes.size();
  const double side = std::min(46.0, (kTableRight - kTableLeft) / static_cast<double>(n));
  int64_t most = 1;
  for (const std::vector<int64_t>& row : picture.bytes)
    most = std::max(most, *std::max_element(row.begin(), row.end()));
  std::string svg = text(kTableLeft, top, "start",
                         fmt::format("{} by link: from (rows) to (columns)", unit.name));
  for (size_t a = 0; a < n; ++a) {
    const double at = static_cast<double>(a) * side;
    svg += text(kTableLeft + at + side / 2, top + 18, "middle", fmt::format("{}", a));
    const double y = top + 24 + static_cast<double>(a) * kTableRow;
    svg += text(kTableLeft - 8, y + 16, "end", fmt::format("{}", a));
    for (size_t b = 0; b < n; ++b) {
      const double share = static_cast<double>(picture.bytes[a][b]) / static_cast<double>(most);
      const double x = kTableLeft + static_cast<double>(b) * side;
      svg += bar(x, y, side, kTableRow,
                 a == b ? "#eeeeee" : fmt::format("rgba(0,158,115,{:.2f})", 0.6 * share),
                 fmt::format("{} to {}: {} bytes", a, b, picture.bytes[a][b]));
      if (a == b || side < 34) continue;
      svg += text(x + side / 2, y + 16, "middle",
                  short_number(static_cast<double>(picture.bytes[a][b]) / unit.bytes),
                  "font-size=\"11\"");
    }
  }
  return svg;
}

/// Moves `top` below.
std::string draw_bytes(const Picture& picture, double& top) {
  const Traffic traffic(picture);
  if (traffic.most <= 0) return "";
  const Unit unit = unit_for(traffic.most);
  const std::string svg =
      text(12, top + 8, "start", picture.bytes_heading, "font-weight=\"bold\"") +
      byte_bars(picture, traffic, unit, top + 32) + link_table(picture, unit, top + 32);
  top += 66 + static_cast<double>(picture.bytes.size()) * kBytesRow;
  return svg;
}

}  // namespace

std::string draw(const Picture& picture) {
  double top = 64;
  std::string body = text(12, 26, "start", picture.title, "font-size=\"16\" font-weight=\"bold\"") +
                     text(12, 47, "start", picture.subtitle) + legend(picture, top);
  top += 8;
  for (const Panel& panel : picture.panels) body += draw_panel(panel, picture.bytes.size(), top);
  body += draw_bytes(picture, top);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
      "<defs><pattern id=\"wait\" width=\"6\" height=\"6\" "
      "patternUnits=\"userSpaceOnUse\"><rect width=\"6\" height=\"6\" fill=\"#eee\"/>"
      "<path d=\"M0 6L6 0\" stroke=\"#999\"/></pattern></defs>\n"
      "<rect width=\"{0}\" height=\"{1:.0f}\" fill=\"white\"/>\n{2}</svg>\n",
      kWidth, top + 10, body);
}

}  // namespace heddle::lab
