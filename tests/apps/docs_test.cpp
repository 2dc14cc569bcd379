// docs/train.md against the program.
#include <regex>
#include <set>

#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

std::set<std::string> flags_in(const std::string& text) {
  static const std::regex kFlag("--[a-z][a-z0-9-]*");
  std::set<std::string> flags;
  for (std::sregex_iterator match(text.begin(), text.end(), kFlag), end; match != end; ++match)
    flags.insert(match->str());
  return flags;
}

}  // namespace

TEST_CASE("docs/train.md has every flag of --help, and no other") {
  const std::set<std::string> documented =
      flags_in(read_text(std::string(HEDDLE_SOURCE_DIR) + "/docs/train.md"));
  const std::set<std::string> offered = flags_in(run_train_cifar({"--help"}).out);
  CHECK(offered.size() > 30);
  for (const std::string& flag : offered) {
    INFO(flag);
    CHECK(documented.contains(flag));
  }
  for (const std::string& flag : documented) {
    INFO(flag);
    CHECK((offered.contains(flag) || flag == "--flag"));
  }
}

}  // namespace heddle::test
