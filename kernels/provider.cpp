#include "heddle/kernels/provider.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "heddle/core/flavour.h"
#include "heddle/kernels/choice_file.h"

namespace heddle {
namespace {

constexpr int kTimedRuns = 3;  // after one warm-up each; the fastest counts

std::atomic<Provider> current_provider{Provider::kAuto};
std::atomic<bool> tf32_is_allowed{false};

struct Choices {
  std::mutex mutex;
  std::unordered_map<std::string, int> index_of_key;
};

Choices& choices() {
  static Choices& instance = *new Choices;  // lives to the end: worker threads may still ask
  return instance;
}

double seconds_of(const detail::TimedChoice& call, int index) {
  if (call.seconds != nullptr) return call.seconds(call.context, index);
  const auto begin = std::chrono::steady_clock::now();
  call.run(call.context, index);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int time_candidates(const detail::TimedChoice& call) {
  double best[2] = {1e300, 1e300};
  for (int index : {0, 1}) call.run(call.context, index);
  for (int repeat = 0; repeat < kTimedRuns; ++repeat)
    for (int index : {0, 1}) best[index] = std::min(best[index], seconds_of(call, index));
  return best[1] < best[0] ? 1 : 0;
}

/// The user's file, under the lock of the choices.
ChoiceFile& choice_file() {
  static std::string path;
  static std::optional<ChoiceFile> file;
  ChoiceFile now = ChoiceFile::of_user();
  if (!file || path != now.path()) {
    path = now.path();
    file = std::move(now);
  }
  return *file;
}

/// The choice made before in this process, or on disk; -1 where there is none.
int known_choice(const detail::TimedChoice& call) {
  const std::lock_guard lock(choices().mutex);
  const auto found = choices().index_of_key.find(call.key);
  if (found != choices().index_of_key.end()) return found->second;
  if (call.section == nullptr) return -1;
  const auto kept = choice_file().find(call.section(call.context), call.key);
  if (!kept) return -1;
  return choices().index_of_key[call.key] = *kept == "native" ? 0 : 1;
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
    throw UsageError(
        "provider vendor: this heddle was built without oneDNN, cuBLAS and cuDNN, use "
        "native or auto");
  current_provider = provider;
}

void set_allow_tf32(bool allow) { tf32_is_allowed = allow; }
bool allow_tf32() { return tf32_is_allowed; }
Provider provider() { return current_provider; }

bool built_with_vendor() {
#if defined(HEDDLE_WITH_ONEDNN) || defined(HEDDLE_WITH_CUBLAS) || defined(HEDDLE_WITH_CUDNN)
  return true;
#else
  return false;
#endif
}

bool built_with_onednn() {
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

void detail::run_timed_choice(const TimedChoice& call) {
  int index = known_choice(call);
  if (index < 0 && call.may_time) {
    const int timed = time_candidates(call);
    const std::lock_guard lock(choices().mutex);
    const auto [entry, is_new] = choices().index_of_key.emplace(call.key, timed);
    index = entry->second;
    if (is_new && call.section != nullptr)
      choice_file().keep(call.section(call.context), call.key, index == 0 ? "native" : "vendor");
  }
  call.run(call.context, std::max(index, 0));
}

}  // namespace heddle
