#include "heddle/apps/support/flags.h"

#include "heddle/core/error.h"
#include "heddle/tests/support/catch.h"

namespace heddle::apps {
namespace {

struct Settings {
  FlagSet flags{"program", "A program."};
  int64_t count = 4;
  double rate = 0.5;
  bool loud = false;
  std::string kind = "red";
  bool resume = false;
  std::string file;

  Settings() {
    flags.integer("--count,-c", &count, 1, 10, "How many");
    flags.number("--rate", &rate, {.low = 0, .high = 1, .low_open = true}, "How fast");
    flags.toggle("--loud", &loud, "Noise");
    flags.choice("--kind", &kind, {"red", "blue"}, "Which");
    flags.optional_text("--resume", &resume, &file, "FILE", "Go on");
  }
  ParseResult parse(const std::vector<std::string>& arguments) {
    return flags.parse(arguments, "1.0");
  }
};

}  // namespace

TEST_CASE("values are taken in both spellings, and defaults stay") {
  Settings s;
  CHECK(s.parse({"--count=7", "--rate", "1", "--loud"}) == ParseResult::kRun);
  CHECK(s.count == 7);
  CHECK(s.rate == 1.0);
  CHECK(s.loud);
  CHECK(s.kind == "red");
  CHECK(s.flags.given("--count"));
  CHECK_FALSE(s.flags.given("--kind"));
  Settings other;
  other.parse({"-c", "3"});
  CHECK(other.count == 3);
  CHECK(other.flags.given("--count"));
}

TEST_CASE("an optional value may be left out") {
  Settings bare;
  bare.parse({"--resume", "--loud"});
  CHECK((bare.resume && bare.file.empty() && bare.loud));
  Settings last;
  last.parse({"--loud", "--resume"});
  CHECK((last.resume && last.file.empty()));
  Settings with;
  with.parse({"--resume", "a file", "--loud"});
  CHECK((with.resume && with.file == "a file" && with.loud));
  Settings equals;
  equals.parse({"--resume=b"});
  CHECK((equals.resume && equals.file == "b"));
}

TEST_CASE("flags become a record and come back from it") {
  Settings first;
  first.parse({"--count", "9", "--rate", "0.1", "--loud", "--kind", "blue"});
  const nlohmann::ordered_json record = first.flags.values();
  CHECK(record["count"] == 9);
  CHECK(record["rate"] == 0.1);
  CHECK(record["loud"] == true);

  Settings second;
  second.parse({"--count", "2", "--kind", "blue"});
  second.flags.restore(record, {"--count"}, {"--loud"}, "the checkpoint");
  CHECK(second.count == 2);
  CHECK(second.rate == 0.1);
  CHECK_FALSE(second.loud);

  Settings third;
  third.parse({"--rate", "0.2"});
  CHECK_THROWS_WITH(third.flags.restore(record, {}, {}, "the checkpoint"),
                    ContainsSubstring("--rate: \"0.2\" contradicts the checkpoint") &&
                        ContainsSubstring("\"0.1\""));
}

TEST_CASE("flags become arguments that give them the same values") {
  Settings first;
  CHECK(first.flags.arguments({}).empty());
  first.parse({"--count", "9", "--rate=0.1", "--loud", "--kind", "red", "--resume", "a file"});
  const std::vector<std::string> arguments = first.flags.arguments({"--count"});
  CHECK(arguments == std::vector<std::string>{"--rate", "0.1", "--loud", "--resume", "a file"});
  Settings second;
  second.parse(arguments);
  CHECK((second.rate == 0.1 && second.loud && second.file == "a file"));
  CHECK(second.count == 4);
}

TEST_CASE("a record with a value out of range is refused") {
  Settings s;
  s.parse({});
  CHECK_THROWS_WITH(s.flags.restore({{"count", 11}}, {}, {}, "config"),
                    ContainsSubstring("config: --count: \"11\" is not allowed"));
}

TEST_CASE("edit distance counts single changes") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("batch", "batch") == 0);
  CHECK(edit_distance("bacth", "batch") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

}  // namespace heddle::apps
