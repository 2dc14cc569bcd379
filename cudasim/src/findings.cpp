#include "cudasim/findings.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "findings_list.h"
#include "symbols.h"

namespace cudasim {

namespace {

// Paths below the current folder are shown from there.
std::string short_path(const std::string& file) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string() + "/";
  return file.rfind(here, 0) == 0 ? file.substr(here.size()) : file;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string triple(const std::array<uint32_t, 3>& v) {
  return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) +
         ")";
}

std::string access_text(const FindingAccess& access) {
  std::string text =
      access.what + " by thread " + triple(access.thread) + " of block " + triple(access.block);
  if (!access.file.empty()) {
    text += "\n      at " + short_path(access.file) + ":" + std::to_string(access.line);
    if (access.frames.size() > 1) {
      text += ", inlined:";
      for (const std::string& frame : access.frames) text += " " + base_name(frame);
    }
  } else if (access.return_address != 0) {
    text += "\n      at " + place_text({}, access.return_address);
  }
  return text;
}

void end_with_findings(int status, void*) {
  const std::vector<Finding> left = FindingsList::get().all();
  if (left.empty()) return;
  int64_t n = 0;
  for (const Finding& finding : left) n += finding.count;
  std::fprintf(stderr, "cudasim: %zu findings (%" PRId64 " accesses):\n", left.size(), n);
  for (const Finding& finding : left) {
    std::fprintf(stderr, "  %s in %s, %s:%d, %" PRId64 " times\n", finding_kind_name(finding.kind),
                 finding.kernel.c_str(), short_path(finding.access.file).c_str(),
                 finding.access.line, finding.count);
  }
  if (status != 0) return;
  std::fflush(nullptr);
  _exit(kFindingsExitCode);
}

// Early, so that it runs after the program's own handlers.
[[maybe_unused]] const FindingsList& registered = FindingsList::get();

}  // namespace

FindingsList& FindingsList::get() {
  static FindingsList* list = [] {
    on_exit(end_with_findings, nullptr);
    return new FindingsList;
  }();
  return *list;
}

bool FindingsList::is_new(const FindingKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  if (found != index_.end()) {
    ++findings_[found->second].count;
    return false;
  }
  if (n_of_launch_ < kFindingsPerLaunch) return true;
  ++n_left_out_;
  return false;
}

void FindingsList::add(const FindingKey& key, Finding finding) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_first] = index_.emplace(key, findings_.size());
  if (!is_first) {  // another thread was faster
    ++findings_[place->second].count;
    return;
  }
  ++n_of_launch_;
  if (!quiet_) std::fprintf(stderr, "%s", to_text(finding).c_str());
  findings_.push_back(std::move(finding));
}

void FindingsList::begin_launch() {
  const std::lock_guard lock(mutex_);
  n_of_launch_ = 0;
}

int64_t FindingsList::end_launch() {
  const std::lock_guard lock(mutex_);
  return quiet_ ? 0 * std::exchange(n_left_out_, 0) : std::exchange(n_left_out_, 0);
}

std::vector<Finding> FindingsList::all() {
  const std::lock_guard lock(mutex_);
  return findings_;
}

std::vector<Finding> FindingsList::exchange(std::vector<Finding> findings) {
  const std::lock_guard lock(mutex_);
  index_.clear();
  return std::exchange(findings_, std::move(findings));
}

bool FindingsList::set_quiet(bool quiet) {
  const std::lock_guard lock(mutex_);
  return std::exchange(quiet_, quiet);
}

const char* finding_kind_name(FindingKind kind) {
  switch (kind) {
    case FindingKind::kOutOfBounds:
      return "out of bounds";
    case FindingKind::kUseAfterFree:
      return "use after free";
    case FindingKind::kHostPointer:
      return "host pointer";
    case FindingKind::kForeignDevice:
      return "memory of another device";
    case FindingKind::kMisaligned:
      return "misaligned access";
    case FindingKind::kUninitialisedRead:
      return "read of memory never written";
    case FindingKind::kRace:
      return "race";
    case FindingKind::kDivergentBarrier:
      return "divergent barrier";
  }
  return "finding";
}

std::string to_text(const Finding& finding) {
  std::string text = std::string("cudasim: ") + finding_kind_name(finding.kind) + " in " +
                     finding.kernel + " on device " + std::to_string(finding.device) + "\n    " +
                     access_text(finding.access) + "\n";
  if (finding.other) text += "    after " + access_text(*finding.other) + "\n";
  if (!finding.memory.empty()) text += "    " + finding.memory + "\n";
  if (finding.count > 1) text += "    " + std::to_string(finding.count) + " times\n";
  return text;
}

std::vector<Finding> findings() { return FindingsList::get().all(); }
void clear_findings() { FindingsList::get().exchange({}); }
int64_t finding_count() { return static_cast<int64_t>(findings().size()); }

ExpectFindings::ExpectFindings()
    : outer_(FindingsList::get().exchange({})), outer_quiet_(FindingsList::get().set_quiet(true)) {}

ExpectFindings::~ExpectFindings() {
  FindingsList::get().exchange(std::move(outer_));
  FindingsList::get().set_quiet(outer_quiet_);
}

std::vector<Finding> ExpectFindings::found() const { return findings(); }

}  // namespace cudasim
