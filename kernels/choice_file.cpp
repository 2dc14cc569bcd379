#include "heddle/kernels/choice_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "heddle/core/error.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr std::uintmax_t kMaxBytes = std::uintmax_t{16} << 20;  // a file of ours is far smaller

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void note(const std::string& text) { fmt::print(stderr, "heddle: {}\n", text); }

}  // namespace

ChoiceFile ChoiceFile::of_user() {
  if (environment("HEDDLE_PROVIDER_CACHE") == "off") return ChoiceFile("");
  const std::string cache = environment("XDG_CACHE_HOME");
  if (!cache.empty() && cache.front() == '/') return ChoiceFile(cache + "/heddle/providers.json");
  const std::string home = environment("HOME");
  return ChoiceFile(home.empty() ? "" : home + "/.cache/heddle/providers.json");
}

ChoiceFile::Sections ChoiceFile::read(bool tell) const {
  std::error_code missing;
  const std::uintmax_t bytes = fs::file_size(path_, missing);
  if (missing) return {};
  try {
    HEDDLE_CHECK(bytes <= kMaxBytes, "it has {} bytes, expected at most {}", bytes, kMaxBytes);
    std::ifstream stream(path_);
    const nlohmann::json json = nlohmann::json::parse(stream);
    if (json.at("version") != kVersion) return {};  // another heddle's, to be written over
    Sections sections;
    for (const auto& [section, choices] : json.at("choices").items())
      for (const auto& [key, value] : choices.items()) {
        const auto choice = value.get<std::string>();
        HEDDLE_CHECK(choice == "native" || choice == "vendor",
                     "\"{}\" is \"{}\", expected native or vendor", key, choice);
        sections[section][key] = choice;
      }
    return sections;
  } catch (const std::exception& error) {
    if (tell)
      note(fmt::format("the provider choices in {} are passed by: {}", path_, error.what()));
    return {};
  }
}

void ChoiceFile::write(const Sections& sections) const {
  fs::create_directories(fs::path(path_).parent_path());
  const std::string beside = fmt::format("{}.{}", path_, getpid());
  std::ofstream stream(beside, std::ios::trunc);
  stream << nlohmann::json{{"version", kVersion}, {"choices", sections}}.dump(1) << '\n';
  stream.close();
  if (stream) {
    fs::rename(beside, path_);
    return;
  }
  std::error_code ignored;
  fs::remove(beside, ignored);
  fail("cannot write {}", beside);
}

std::optional<std::string> ChoiceFile::find(const std::string& section, const std::string& key) {
  if (path_.empty()) return std::nullopt;
  if (!sections_) sections_ = read(true);
  const auto found = sections_->find(section);
  if (found == sections_->end()) return std::nullopt;
  const auto choice = found->second.find(key);
  if (choice == found->second.end()) return std::nullopt;
  return choice->second;
}

void ChoiceFile::keep(const std::string& section, const std::string& key,
                      const std::string& choice) {
  if (path_.empty()) return;
  sections_ = read(!sections_);
  (*sections_)[section][key] = choice;
  try {
    write(*sections_);
  } catch (const std::exception& error) {
    note(fmt::format("provider choices are not kept: {}", error.what()));
    path_.clear();
  }
}

}  // namespace heddle
