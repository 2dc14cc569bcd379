#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

/// Measuring several ways to do the same work: in turn, in rounds, so that what disturbs the
/// machine disturbs all of them.
namespace heddle::bench {

struct Side {
  std::string name;
  std::function<void()> run;
};

struct Rounds {
  int64_t count = 7;             ///< At least five.
  double sample_seconds = 5e-3;  ///< A sample repeats the work until it takes at least this long.
};

/// Seconds of one call, in rounds.
struct Timing {
  std::string side;
  std::vector<double> samples;

  double median() const;
  double spread() const;  ///< (highest - lowest) / median, without the worst round at either end.
};

/// Seconds of one call of `run`, when it is called `repeats` times.
using Stopwatch = std::function<double(const std::function<void()>& run, int64_t repeats)>;
double host_seconds(const std::function<void()>& run, int64_t repeats);

/// Times every side in each round, starting with another side in each.
std::vector<Timing> measure(const std::vector<Side>& sides, const Rounds& rounds,
                            const Stopwatch& stopwatch = host_seconds);

/// The median of reference / timing over rounds: above 1, `timing` is the faster.
double speedup(const Timing& timing, const Timing& reference);

nlohmann::ordered_json to_json(const Timing& timing);

/// Columns of text, the first aligned left, the others right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Writes to a file, or to standard output for "-". Errors: Error where it cannot be written.
void write_json(const std::string& path, const nlohmann::ordered_json& value);

/// What the processor was measured to do with the threads and instruction set in use.
struct Peaks {
  double float32 = 0.0;    ///< FLOP/s, fused multiply-adds on registers
  double bfloat16 = 0.0;   ///< FLOP/s of the dot-product units, 0 where there are none
  double bandwidth = 0.0;  ///< bytes/s of a[i] = b[i] + s * c[i] on arrays past the caches
};
Peaks measure_peaks();

/// Processor, instruction set, threads, versions: what figures depend on.
nlohmann::ordered_json describe_machine();

}  // namespace heddle::bench
