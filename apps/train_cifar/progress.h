#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace heddle::train_cifar {

/// "12s", "3:07", "1:02:05"
std::string format_duration(double seconds);
/// "[=====>    ]" with `width` places between the brackets; share in [0, 1].
std::string format_bar(double share, int width);

/// Title, bar and figures in a line of at most `columns`: the bar is as long as there is room, up
/// to 24 places; where there is none it is left out, then the end of the figures.
std::string format_line(const std::string& title, double share, const std::string& figures,
                        int columns);

/// What is shown while an epoch runs: a bar that redraws itself on a terminal, a line for each
/// tenth of the epoch elsewhere, nothing where quiet.
class Progress {
 public:
  Progress(bool terminal, bool quiet) : terminal_(terminal), quiet_(quiet) {}

  /// `first` is the number of steps of the epoch that were done before (a resumed run).
  void begin(const std::string& title, int64_t first, int64_t n_steps);
  void update(int64_t step, double loss, int64_t images_so_far);
  void end();  ///< Clears the bar.

 private:
  using Clock = std::chrono::steady_clock;
  bool due(int64_t step);

  bool terminal_;
  bool quiet_;
  std::string title_;
  int64_t first_ = 0;
  int64_t n_steps_ = 0;
  bool drawn_ = false;
  Clock::time_point start_;
  Clock::time_point last_drawn_;
};

}  // namespace heddle::train_cifar
