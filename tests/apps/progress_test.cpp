#include "heddle/apps/train_cifar/progress.h"

#include "heddle/tests/support/catch.h"

namespace heddle::train_cifar {

TEST_CASE("durations are written as people read them") {
  CHECK(format_duration(0.0) == "0s");
  CHECK(format_duration(-1.0) == "0s");
  CHECK(format_duration(59.4) == "59s");
  CHECK(format_duration(59.6) == "1:00");
  CHECK(format_duration(187.0) == "3:07");
  CHECK(format_duration(3725.0) == "1:02:05");
}

TEST_CASE("the bar fills from left to right") {
  CHECK(format_bar(0.0, 4) == "[>   ]");
  CHECK(format_bar(0.5, 4) == "[==> ]");
  CHECK(format_bar(1.0, 4) == "[====]");
  CHECK(format_bar(7.0, 4) == "[====]");
}

}  // namespace heddle::train_cifar
