#pragma once

#include <map>
#include <optional>
#include <string>

namespace heddle {

/// What `auto` found to be faster on CUDA devices, kept between runs: a JSON file
/// {"version": 1, "choices": {"card, library version": {"op and sizes": "native"}}}.
class ChoiceFile {
 public:
  using Choices = std::map<std::string, std::string>;  // op, dtype and sizes to native or vendor

  /// An empty path: nothing is kept.
  explicit ChoiceFile(std::string path) : path_(std::move(path)) {}
  /// XDG_CACHE_HOME/heddle/providers.json, XDG_CACHE_HOME being ~/.cache where it is not set; no
  /// path with HEDDLE_PROVIDER_CACHE=off, or where there is no home.
  static ChoiceFile of_user();

  /// The choice for the key. A file that cannot be read as what it should be is passed by, with one
  /// line on stderr.
  std::optional<std::string> find(const std::string& section, const std::string& key);
  /// Keeps the choice: what other processes wrote meanwhile stays, and the file is replaced as a
  /// whole. Where that fails, one line on stderr says so, and nothing is kept from then on.
  void keep(const std::string& section, const std::string& key, const std::string& choice);

  const std::string& path() const { return path_; }

 private:
  using Sections = std::map<std::string, Choices>;

  Sections read(bool tell) const;
  void write(const Sections& sections) const;

  std::string path_;
  std::optional<Sections> sections_;  // as read at first
};

}  // namespace heddle
