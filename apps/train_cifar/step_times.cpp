#include "heddle/apps/train_cifar/step_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace heddle::train_cifar {
namespace {

constexpr double kInputBound = 0.10;
constexpr double kCopyBound = 0.10;
constexpr double kReduceBound = 0.15;
constexpr double kHostBound = 0.25;
constexpr size_t kColumns = 78;

struct Part {
  std::string name;
  double share;
};

std::vector<Part> parts_of(const StepTimes& times) {
  std::vector<Part> parts;
  const double all = times.total() > 0 ? times.total() : 1.0;
  for (int i = 0; i < kPhases; ++i) {
    const Phase phase{static_cast<uint8_t>(i)};
    parts.push_back({phase == Phase::kData ? "wait" : name_of(phase), times.share(phase)});
  }
  parts.push_back({"other", times.other / all});
  return parts;
}

struct Finding {
  std::string bound;
  std::vector<std::string> parts;  // whose shares it is about
  std::string advice;
};

Finding find_bound(const StepTimes& times, Device device, int workers, bool tuned) {
  if (times.share(Phase::kData) >= kInputBound)
    return {"input-bound",
            {"wait"},
            tuned ? fmt::format(": the loader's {} workers do not keep up", workers)
                  : fmt::format(": raise --workers above {}", workers)};
  if (times.share(Phase::kCopy) >= kCopyBound)
    return {"copy-bound", {"copy"}, ": raise --batch-size"};
  if (times.share(Phase::kReduce) >= kReduceBound)
    return {"reduce-bound", {"reduce"}, ": raise --batch-size, or use fewer devices"};
  const bool asynchronous = device.type != DeviceType::kCpu;
  if (asynchronous && parts_of(times).back().share >= kHostBound)
    return {"host-bound", {"other"}, ": raise --batch-size"};
  return {"compute-bound", {"compute", "update"}, ""};
}

/// " (update 3%, wait 1%)": the largest first, as many as fit.
std::string others(std::vector<Part> parts, size_t columns) {
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.share > b.share; });
  std::string text;
  for (const Part& part : parts) {
    const std::string more =
        fmt::format("{}{} {:.0f}%", text.empty() ? " (" : ", ", part.name, 100.0 * part.share);
    if (part.share < 0.01 || text.size() + more.size() >= columns) break;
    text += more;
  }
  return text.empty() ? "" : text + ")";
}

}  // namespace

double StepTimes::share(Phase phase) const {
  const double all = total();
  return all > 0 ? phases[phase] / all : 0.0;
}

StepTimes account_for(const PhaseSeconds& measured, double wall_seconds) {
  StepTimes times{.phases = measured};
  double& data = times.phases[Phase::kData];
  const double busy = measured.sum() - data;
  data = std::clamp(wall_seconds - busy, 0.0, data);
  times.other = std::max(0.0, wall_seconds - times.phases.sum());
  return times;
}

std::string verdict(const StepTimes& times, Device device, int workers, bool tuned) {
  const Finding found = find_bound(times, device, workers, tuned);
  std::vector<Part> parts = parts_of(times);
  double share = 0.0;
  for (const std::string& name : found.parts)
    std::erase_if(parts, [&](const Part& part) {
      if (part.name == name) share += part.share;
      return part.name == name;
    });
  std::string line = fmt::format("{} {:.0f}%{}", found.bound, 100.0 * share, found.advice);
  return line + others(std::move(parts), kColumns - line.size());
}

nlohmann::ordered_json to_json(const StepTimes& times) {
  nlohmann::ordered_json json;
  for (int i = 0; i < kPhases; ++i) {
    const Phase phase{static_cast<uint8_t>(i)};
    json[name_of(phase)] = times.phases[phase];
  }
  json["other"] = times.other;
  return json;
}

}  // namespace heddle::train_cifar
