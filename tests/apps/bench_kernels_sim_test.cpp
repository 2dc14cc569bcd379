// bench_kernels_sim: what kernels ask of memory, as cudasim counts it.
#include <nlohmann/json.hpp>

#include "heddle/tests/apps/small_data.h"
#include "heddle/tests/support/catch.h"

namespace heddle::test {
namespace {

const std::string kProgram = HEDDLE_BIN_FOLDER "/bench_kernels_sim";

TEST_CASE("bench_kernels_sim counts what a kernel asks of memory", "[device]") {
  const TemporaryFolder folder;
  const std::string json = folder / "counts.json";
  const ProcessResult result = run_process(
      {kProgram, "--device", "cuda:0", "--filter", "relu/forward/65536/float32", "--json", json});
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.find("Counts, not times") != std::string::npos);
  CHECK(result.out.find("ms") == std::string::npos);
  const auto counts = nlohmann::json::parse(read_text(json)).at("counts");
#ifdef CUDASIM_WITH_CHECKS  // nothing is counted without
  const auto kernel = counts.back().at("kernels").at(0);
  // 65536 floats of 4 bytes in sectors of 32, each read once and written once.
  CHECK(kernel.at("load_sectors") == 65536 * 4 / 32);
  CHECK(kernel.at("store_sectors") == 65536 * 4 / 32);
  CHECK(kernel.at("bank_conflicts") == 0);
#endif
  CHECK(counts.back().at("max_error").get<double>() == 0.0);
}

TEST_CASE("bench_kernels_sim has no times to draw", "[device]") {
  const TemporaryFolder folder;
  const ProcessResult result =
      run_process({kProgram, "--device", "cuda:0", "--filter", "relu/forward/65536/float32",
                   "--roofline", folder / "roof.svg"});
  CHECK(result.exit_code == 2);
  CHECK(result.err.find("no times to draw") != std::string::npos);
}

}  // namespace
}  // namespace heddle::test
