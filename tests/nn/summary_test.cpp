#include "heddle/nn/summary.h"

#include "heddle/nn/models/resnet18.h"
#include "heddle/nn/models/simple_cnn.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

TEST_CASE("summary: layers, parameters, operations and memory of SimpleCnn") {
  SimpleCnn model;
  const std::vector<LayerSummary> rows = layer_summaries(model, {2, 3, 32, 32});
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].name == "conv1");
  CHECK(rows[0].output == Shape{2, 32, 32, 32});
  CHECK(rows[0].parameters == 32 * 27 + 32);
  CHECK(rows[0].flops == int64_t{2} * 2 * 32 * 32 * 32 * 27);
  CHECK(rows[0].activation_bytes == int64_t{4} * 2 * 32 * 32 * 32);
  CHECK(rows[2].name == "fc1");
  CHECK(rows[2].flops == int64_t{2} * 2 * 65536 * 128);
  CHECK(rows[2].activation_bytes == 4 * 2 * 128);
  const std::string text = summarize(model, {2, 3, 32, 32});
  CHECK_THAT(text, ContainsSubstring("Conv2d(32, 64, kernel 3x3, padding 1x1, relu)"));
  CHECK_THAT(text, ContainsSubstring("8,409,418"));
  CHECK_THAT(text, ContainsSubstring("(2, 64, 32, 32)"));
}

TEST_CASE("summary: a block that adds has a row of its own, a sequence has none") {
  ResNet18 model;
  int64_t parameters = 0, blocks = 0;
  for (const LayerSummary& row : layer_summaries(model, {1, 3, 32, 32})) {
    parameters += row.parameters;
    blocks += row.description == "BasicBlock" ? 1 : 0;
    CHECK(row.description != "Sequential");
  }
  CHECK(blocks == 8);
  CHECK(parameters == model.parameter_count());
}

TEST_CASE("summary: the model stays as it was") {
  ResNet18 model;
  model.layer2.eval();
  summarize(model, {1, 3, 32, 32});
  CHECK(model.is_training());
  CHECK_FALSE(model.layer2.is_training());
  CHECK(model.bn1.num_batches_tracked.item() == 0.0);
}

}  // namespace
}  // namespace heddle
