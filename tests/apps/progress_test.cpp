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

TEST_CASE("the line fits the terminal") {
  const std::string title = "epoch 1/3", figures = "10/20  loss 1.5  900 images/s  3s left";
  CHECK(format_line(title, 0.5, figures, 200) == title + " [============>           ] " + figures);
  CHECK(format_line(title, 0.5, figures, 59) == title + " [====>   ] " + figures);
  CHECK(format_line(title, 0.5, figures, 54) == title + " " + figures);
  CHECK(format_line(title, 0.5, figures, 20) == "epoch 1/3 10/20  los");
  CHECK(format_line(title, 0.5, figures, 0).empty());
  for (int columns = 1; columns < 120; ++columns)
    CHECK(static_cast<int>(format_line(title, 0.5, figures, columns).size()) <= columns);
}

}  // namespace heddle::train_cifar
