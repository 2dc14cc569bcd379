#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "heddle/tests/support/catch.h"

/// An op that is declared and not tested is a mistake that nobody sees: every name in nn/ops.h must
/// be the tag of a test in tests/ops, or be called in a file there that has an oracle: the op
/// harness, or product_cases.h.
namespace heddle {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<std::string> declared_ops() {
  const std::string text = text_of(fs::path(HEDDLE_SOURCE_DIR) / "nn/ops.h");
  const std::regex declaration("(?:^|\n)(?:Tensor|void|bool) ([a-z0-9_]+)\\(");
  std::set<std::string> names;
  for (std::sregex_iterator match(text.begin(), text.end(), declaration), end; match != end;
       ++match)
    names.insert((*match)[1]);
  return names;
}

std::vector<std::string> test_texts() {
  std::vector<std::string> texts;
  for (const auto& entry : fs::directory_iterator(fs::path(HEDDLE_SOURCE_DIR) / "tests/ops"))
    if (entry.path().extension() == ".cpp") texts.push_back(text_of(entry.path()));
  return texts;
}

/// `name(`, not as the end of a longer name and not of another namespace.
bool calls(const std::string& text, const std::string& name) {
  return std::regex_search(text, std::regex("[^a-z0-9_:]" + name + "\\("));
}

bool is_tested(const std::string& name, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text.find("[" + name + "]") != std::string::npos) return true;
    const bool has_oracle = text.find("check_op(") != std::string::npos ||
                            text.find("support/product_cases.h") != std::string::npos;
    if (has_oracle && calls(text, name)) return true;
  }
  return false;
}

TEST_CASE("every op in nn/ops.h has a test", "[coverage]") {
  const std::set<std::string> ops = declared_ops();
  CHECK(ops.size() > 40);
  CHECK(ops.count("conv2d") == 1);
  const std::vector<std::string> texts = test_texts();
  for (const std::string& name : ops) {
    INFO(name << " is declared in nn/ops.h and has no case in tests/ops");
    CHECK(is_tested(name, texts));
  }
  CHECK_FALSE(is_tested("op_that_nobody_" + std::string("tests"), texts));
}

}  // namespace
}  // namespace heddle
