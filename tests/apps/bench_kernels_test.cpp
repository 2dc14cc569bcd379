#include <nlohmann/json.hpp>

#include "heddle/tests/apps/small_data.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/process.h"

namespace heddle::test {
namespace {

const std::string kProgram = HEDDLE_BIN_FOLDER "/bench_kernels";

TEST_CASE("bench_kernels writes its figures and its picture") {
  const TemporaryFolder folder;
  const std::string json = folder / "figures.json", svg = folder / "roof.svg";
  const ProcessResult result =
      run_process({kProgram, "--filter", "linear/forward/simple_cnn.fc2/float32", "--rounds", "5",
                   "--json", json, "--roofline", svg});
  REQUIRE(result.exit_code == 0);
  const auto cases = nlohmann::json::parse(read_text(json)).at("cases");
  REQUIRE(cases.size() == 1);
  const auto native = cases[0].at("sides")[0];
  CHECK(native.at("side") == "native");
  CHECK(native.at("samples_seconds").size() == 5);
  CHECK(native.at("max_error").get<double>() < 1e-5);
  const std::string picture = read_text(svg);
  CHECK(picture.rfind("<svg", 0) == 0);
  CHECK(picture.find("linear/forward/simple_cnn.fc2/float32, native") != std::string::npos);
}

TEST_CASE("bench_kernels has cases of every op that has a kernel of its own") {
  const std::string list = run_process({kProgram, "--list"}).out;
  for (const char* op : {"conv2d/forward",   "conv2d/data",
                         "conv2d/weight",    "linear/forward",
                         "linear/data",      "linear/weight",
                         "matmul",           "max_pool2d/data",
                         "avg_pool2d/data",  "global_avg_pool2d/data",
                         "batch_norm/data",  "batch_norm_relu/data",
                         "dropout/data",     "gelu/data",
                         "add_row",          "less",
                         "transpose",        "fill",
                         "cast_to_float32",  "uniform",
                         "normal",           "sum_column",
                         "max_row",          "argmax_row",
                         "log_softmax/data", "cross_entropy/data",
                         "sgd_momentum",     "adamw",
                         "gradient_squares"}) {
    INFO(op);
    CHECK(list.find(op) != std::string::npos);
  }
}

TEST_CASE("bench_kernels names what it cannot do") {
  const ProcessResult none = run_process({kProgram, "--filter", "no such case"});
  CHECK(none.exit_code == 2);
  CHECK(none.err.find("see --list") != std::string::npos);
}

}  // namespace
}  // namespace heddle::test
