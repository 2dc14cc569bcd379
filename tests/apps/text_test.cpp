#include "heddle/apps/support/text.h"

#include "heddle/data/loader.h"
#include "heddle/tests/support/catch.h"

namespace heddle::apps {

TEST_CASE("split_text keeps empty parts") {
  using Parts = std::vector<std::string>;
  CHECK(split_text("a,,b") == Parts{"a", "", "b"});
  CHECK(split_text("") == Parts{""});
  CHECK(split_text("0-1,", '-') == Parts{"0", "1,"});
}

TEST_CASE("parse_whole takes the whole text or nothing") {
  CHECK(parse_whole<int64_t>("-12") == -12);
  CHECK(parse_whole<double>("1e-3") == 1e-3);
  for (const char* text : {"", "12abc", " 1", "1,2"}) CHECK_FALSE(parse_whole<int64_t>(text));
}

TEST_CASE("parse_workers") {
  CHECK(parse_workers("auto") == kAutoWorkers);
  CHECK(parse_workers("0") == 0);
  CHECK(parse_workers("256") == 256);
  for (const char* text : {"257", "-1", "Auto", ""}) CHECK_FALSE(parse_workers(text));
}

}  // namespace heddle::apps
