#include "heddle/kernels/provider.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <unordered_map>

namespace heddle {
namespace {

constexpr int kTimedRuns = 3;  // after one warm-up each; the fastest counts

std::atomic<Provider> current_provider{Provider::kAuto};

struct Choices {
  std::mutex mutex;
  std::unordered_map<std::string, int> index_of_key;
};

Choices& choices() {
  static Choices& instance = *new Choices;  // lives to the end: worker threads may still ask
  return instance;
}

double seconds_of(detail::RunCandidate run, const void* context, int index) {
  const auto begin = std::chrono::steady_clock::now();
  run(context, index);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int time_candidates(detail::RunCandidate run, const void* context) {
  double best[2] = {1e300, 1e300};
  for (int index : {0, 1}) run(context, index);
  for (int repeat = 0; repeat < kTimedRuns; ++repeat)
    for (int index : {0, 1}) best[index] = std::min(best[index], seconds_of(run, context, index));
  return best[1] < best[0] ? 1 : 0;
}

}  // namespace

Provider parse_provider(std::string_view text) {
  for (const Provider p : {Provider::kAuto, Provider::kNative, Provider::kVendor})
    if (text == name_of(p)) return p;
  throw UsageError(fmt::format("provider \"{}\" is not one of: auto, native, vendor", text));
}

std::string_view name_of(Provider provider) {
  switch (provider) {
    case Provider::kAuto:
      return "auto";
    case Provider::kNative:
      return "native";
    case Provider::kVendor:
      return "vendor";
  }
  return "unknown";
}

void set_provider(Provider provider) {
  if (provider == Provider::kVendor && !built_with_vendor())
    throw UsageError("provider vendor: this heddle was built without oneDNN, use native or auto");
  current_provider = provider;
}

Provider provider() { return current_provider; }

bool built_with_vendor() {
#ifdef HEDDLE_WITH_ONEDNN
  return true;
#else
  return false;
#endif
}

std::map<std::string, std::string> provider_choices() {
  const std::lock_guard lock(choices().mutex);
  std::map<std::string, std::string> sorted;
  for (const auto& [key, index] : choices().index_of_key)
    sorted[key] = index == 0 ? "native" : "vendor";
  return sorted;
}

int set_provider_choices(const std::map<std::string, std::string>& recorded) {
  int unavailable = 0;
  const std::lock_guard lock(choices().mutex);
  for (const auto& [key, value] : recorded) {
    HEDDLE_CHECK(value == "native" || value == "vendor",
                 "provider choices: \"{}\" is \"{}\", expected native or vendor", key, value);
    if (value == "vendor" && !built_with_vendor()) {
      ++unavailable;
    } else {
      choices().index_of_key[key] = value == "native" ? 0 : 1;
    }
  }
  return unavailable;
}

void detail::run_timed_choice(const std::string& key, RunCandidate run, const void* context) {
  int index = -1;
  {
    const std::lock_guard lock(choices().mutex);
    const auto found = choices().index_of_key.find(key);
    if (found != choices().index_of_key.end()) index = found->second;
  }
  if (index < 0) {
    const int timed = time_candidates(run, context);
    const std::lock_guard lock(choices().mutex);
    index = choices().index_of_key.emplace(key, timed).first->second;
  }
  run(context, index);
}

}  // namespace heddle
