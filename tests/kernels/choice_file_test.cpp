#include "heddle/kernels/choice_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "heddle/kernels/provider.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/temporary_folder.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

/// An environment variable with a value while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST_CASE("provider choices on disk: what is kept is found, by card and version") {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "deep" / "providers.json").string();
  ChoiceFile first(path), second(path);
  REQUIRE_FALSE(first.find("card, cuDNN 9.1.0", "conv").has_value());
  first.keep("card, cuDNN 9.1.0", "conv", "vendor");
  second.keep("card, cuDNN 9.1.0", "linear", "native");
  second.keep("card, cuDNN 9.2.0", "conv", "native");
  ChoiceFile third(path);
  REQUIRE(third.find("card, cuDNN 9.1.0", "conv") == "vendor");
  REQUIRE(third.find("card, cuDNN 9.1.0", "linear") == "native");
  REQUIRE(third.find("card, cuDNN 9.2.0", "conv") == "native");
  REQUIRE_FALSE(third.find("other, cuDNN 9.1.0", "conv").has_value());
  REQUIRE(std::distance(fs::directory_iterator(fs::path(path).parent_path()), {}) == 1);
}

TEST_CASE("provider choices on disk: a broken file is passed by and written anew") {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "providers.json").string();
  for (const char* text :
       {"", "{", "[]", "{\"version\": 1}", "{\"version\": 1, \"choices\": 3}",
        "{\"version\": 1, \"choices\": {\"card\": {\"conv\": \"magic\"}}}",
        "{\"version\": 1, \"choices\": {\"card\": {\"conv\": 1}}}", "{\"version\": 2}"}) {
    CAPTURE(text);
    std::ofstream(path) << text;
    ChoiceFile file(path);
    REQUIRE_FALSE(file.find("card", "conv").has_value());
    file.keep("card", "conv", "native");
    REQUIRE(ChoiceFile(path).find("card", "conv") == "native");
  }
}

TEST_CASE("provider choices on disk: where they lie, and how they are switched off") {
  const Variable home("HOME", "/some/where"), cache("XDG_CACHE_HOME", "");
  const Variable setting("HEDDLE_PROVIDER_CACHE", "");
  REQUIRE(ChoiceFile::of_user().path() == "/some/where/.cache/heddle/providers.json");
  {
    const Variable other("XDG_CACHE_HOME", "/var/somewhere");
    REQUIRE(ChoiceFile::of_user().path() == "/var/somewhere/heddle/providers.json");
    const Variable off("HEDDLE_PROVIDER_CACHE", "off");
    REQUIRE(ChoiceFile::of_user().path().empty());
  }
  ChoiceFile nowhere("");
  nowhere.keep("card", "conv", "native");
  REQUIRE_FALSE(nowhere.find("card", "conv").has_value());
  ChoiceFile unwritable("/proc/heddle/providers.json");
  unwritable.keep("card", "conv", "native");
  REQUIRE(unwritable.path().empty());
}

int n_timed = 0;

/// The vendor's version takes half of the time.
detail::TimedChoice choice_between(std::string key, std::string (*section)(const void*)) {
  return {.key = std::move(key),
          .context = nullptr,
          .run = [](const void*, int) {},
          .seconds =
              [](const void*, int index) {
                ++n_timed;
                return index == 0 ? 2.0 : 1.0;
              },
          .section = section};
}

TEST_CASE("auto asks the file before it times, and keeps what it found") {
  const test::TemporaryFolder folder;
  const Variable cache("XDG_CACHE_HOME", folder.path().string()),
      setting("HEDDLE_PROVIDER_CACHE", "");
  const auto section = [](const void*) { return std::string("card, library 1"); };
  n_timed = 0;
  detail::run_timed_choice(choice_between("choice file test a", section));
  REQUIRE(n_timed > 0);
  REQUIRE(provider_choices().at("choice file test a") == "vendor");
  REQUIRE(ChoiceFile::of_user().find("card, library 1", "choice file test a") == "vendor");
  const test::TemporaryFolder other;  // a file is read once
  const Variable elsewhere("XDG_CACHE_HOME", other.path().string());
  ChoiceFile::of_user().keep("card, library 1", "choice file test b", "native");
  n_timed = 0;
  detail::run_timed_choice(choice_between("choice file test b", section));
  REQUIRE(n_timed == 0);
  REQUIRE(provider_choices().at("choice file test b") == "native");
  detail::run_timed_choice(choice_between("choice file test c", nullptr));
  REQUIRE(provider_choices().at("choice file test c") == "vendor");
  REQUIRE_FALSE(ChoiceFile::of_user().find("card, library 1", "choice file test c").has_value());
}

}  // namespace
}  // namespace heddle
