#include "heddle/apps/train_cifar/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace heddle::train_cifar {
namespace {

constexpr int kBarWidth = 24;
constexpr int kShortestBar = 4;
constexpr int kUsualColumns = 80;
constexpr int kLinesPerEpoch = 10;
constexpr std::chrono::milliseconds kRedraw(100);

/// Of the terminal now: it may be made narrower while an epoch runs.
int terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsualColumns;
}

}  // namespace

std::string format_duration(double seconds) {
  const int64_t total = std::llround(std::max(0.0, seconds));
  const int64_t hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  if (minutes > 0) return fmt::format("{}:{:02}", minutes, rest);
  return fmt::format("{}s", rest);
}

std::string format_bar(double share, int width) {
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < width) bar += '>';
  bar.resize(static_cast<size_t>(width), ' ');
  return "[" + bar + "]";
}

std::string format_line(const std::string& title, double share, const std::string& figures,
                        int columns) {
  const int text = static_cast<int>(title.size() + figures.size());
  const int room = columns - text - 4;  // two spaces, two brackets
  if (room >= kShortestBar)
    return fmt::format("{} {} {}", title, format_bar(share, std::min(room, kBarWidth)), figures);
  return fmt::format("{} {}", title, figures).substr(0, static_cast<size_t>(std::max(columns, 0)));
}

void Progress::begin(const std::string& title, int64_t first, int64_t n_steps) {
  title_ = title;
  first_ = first;
  n_steps_ = n_steps;
  drawn_ = false;
  start_ = Clock::now();
  last_drawn_ = {};
}

bool Progress::due(int64_t step) {
  if (quiet_) return false;
  if (!terminal_) return step * kLinesPerEpoch / n_steps_ != (step - 1) * kLinesPerEpoch / n_steps_;
  return step == n_steps_ || Clock::now() - last_drawn_ >= kRedraw;
}

void Progress::update(int64_t step, double loss, int64_t images_so_far) {
  if (!due(step)) return;
  const double seconds =
      std::max(1e-9, std::chrono::duration<double>(Clock::now() - start_).count());
  const double per_step = seconds / static_cast<double>(step - first_);
  const std::string figures =
      fmt::format("{}/{}  loss {:.4f}  {:.0f} images/s  {} left", step, n_steps_, loss,
                  static_cast<double>(images_so_far) / seconds,
                  format_duration(per_step * static_cast<double>(n_steps_ - step)));
  if (terminal_) {
    const double share = static_cast<double>(step) / static_cast<double>(n_steps_);
    // The last column stays free: some terminals go to the next line when it is written.
    fmt::print("\r\033[K{}", format_line(title_, share, figures, terminal_columns() - 1));
  } else {
    fmt::print("{}  {}\n", title_, figures);
  }
  std::fflush(stdout);
  drawn_ = true;
  last_drawn_ = Clock::now();
}

void Progress::end() {
  if (terminal_ && drawn_) fmt::print("\r\033[K");
}

}  // namespace heddle::train_cifar
