// The measuring programs: wrong command lines (CL-1) before any measuring, and what they find.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "heddle/tests/apps/small_data.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/process.h"

namespace heddle::test {
namespace {

ProcessResult run(const std::string& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), HEDDLE_BIN_FOLDER "/" + program);
  return run_process(arguments);
}

void check_refused(const std::string& program, const std::vector<std::string>& arguments,
                   int exit_code, const std::vector<std::string>& said) {
  const ProcessResult result = run(program, arguments);
  INFO(program << ": " << result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.out.empty());
  CHECK(result.err.starts_with(program + ": "));
  CHECK(result.err.find('\n') == result.err.size() - 1);
  for (const std::string& text : said) CHECK_THAT(result.err, ContainsSubstring(text));
}

const std::vector<std::string> kPrograms{"bench_kernels", "bench_loader", "bench_step",
                                         "parallel_lab"};

}  // namespace

TEST_CASE("measuring programs refuse unknown flags and values with one line") {
  for (const std::string& program : kPrograms) {
    check_refused(program, {"--batch-siez", "64"}, 2,
                  {"--batch-siez", "did you mean --batch-size"});
    check_refused(program, {"--batch-size", "many"}, 2, {"--batch-size", "many", "whole number"});
    check_refused(program, {"stray"}, 2, {"stray"});
    const ProcessResult version = run(program, {"--version"});
    CHECK(version.exit_code == 0);
    CHECK(version.out == program + " " HEDDLE_TEST_VERSION "\n");
  }
  for (const char* workers : {"-1", "1,", "1,,2", "two", "1;2", "257", "99999999999"})
    check_refused("bench_loader", {"--workers", workers}, 2, {"--workers", workers, "0 to 256"});
  check_refused("bench_loader", {"--ways", "plain,uint4"}, 2, {"--ways", "uint4", "uint8"});
  check_refused("bench_loader", {"--data", "/nowhere"}, 1, {"/nowhere"});
}

TEST_CASE("measuring programs refuse flags that contradict each other or are given in vain") {
  struct Wrong {
    std::string program;
    std::vector<std::string> arguments, said;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {"bench_kernels", {"--list", "--json", "f"}, {"--json means nothing with --list"}},
           {"bench_kernels", {"--list", "--rounds", "9"}, {"--rounds means nothing with --list"}},
           {"bench_kernels", {"--isa", "avx2", "--device", "cuda:0"}, {"--device"}},
           {"bench_step",
            {"--side", "raw_plain", "--provider", "native"},
            {"--provider means something only with --side all or heddle"}},
           {"bench_loader", {"--allow-small"}, {"--allow-small means something only with --data"}},
           {"parallel_lab",
            {"--split", "4,4", "--replicas", "2", "--batch-size", "8"},
            {"--batch-size contradicts --split"}},
           {"parallel_lab", {"--slow-factor", "3"}, {"only with --slow-replica"}},
           {"parallel_lab", {"--late-ms", "3"}, {"only with --late-replica"}},
           {"parallel_lab", {"--any-order", "--exchange", "ring"}, {"only with --exchange auto"}},
           {"parallel_lab",
            {"--links", "measured", "--latency", "3"},
            {"--latency means something only with --links given"}},
           {"parallel_lab", {"--devices", "none", "--steps", "3"}, {"--steps", "--devices"}}})
    check_refused(wrong.program, wrong.arguments, 2, wrong.said);
}

TEST_CASE("examples refuse arguments") {
  for (const char* example : {"dataset", "function", "module"}) {
    const ProcessResult result = run("example_" + std::string(example), {"stray"});
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(result.err == "example_" + std::string(example) +
                            ": \"stray\" is not allowed, expected no arguments\n");
  }
}

TEST_CASE("a file for figures that cannot be written is refused before they are measured") {
  const TemporaryFolder folder;
  for (const std::string& program : kPrograms) {
    const std::string nowhere = folder / "nowhere/figures.json";
    check_refused(program, {"--json", nowhere}, 1, {"--json " + nowhere, "cannot be written"});
    check_refused(program, {"--json", folder.path()}, 1, {"is a folder"});
  }
  check_refused("bench_kernels", {"--roofline", folder / "no/f.svg"}, 1, {"--roofline"});
  check_refused("parallel_lab", {"--svg", folder / "no/f.svg"}, 1, {"--svg"});
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("bench_loader measures every transform and number of workers") {
  const TemporaryFolder folder;
  write_small_cifar(folder / "data", 4, 6);
  const std::vector<std::string> flags{
      "--data", folder / "data", "--allow-small", "--seconds", "0",     "--rounds",
      "1",      "--workers",     "0,auto",        "--ways",    "plain", "--json"};
  std::vector<std::string> to_file = flags, to_output = flags;
  to_file.push_back(folder / "f.json");
  const ProcessResult table = run("bench_loader", to_file);
  CHECK(table.exit_code == 0);
  CHECK_THAT(table.out, ContainsSubstring("images/s") && ContainsSubstring("crop_flip"));
  to_output.push_back("-");
  for (const std::string& text :
       {read_text(folder / "f.json"), run("bench_loader", to_output).out}) {
    const auto results = nlohmann::json::parse(text)["results"];
    REQUIRE(results.size() == 4);
    CHECK(results[3]["transform"] == "crop_flip");
    CHECK(results[3]["workers"] == "auto");
    CHECK(results[0]["images_per_second"] > 0.0);
  }
}

#ifndef __SANITIZE_ADDRESS__  // which never uses a freed page again
TEST_CASE("a steady step takes no page fault, of either model") {
  for (const char* model : {"simple_cnn", "resnet18"}) {
    const ProcessResult result =
        run("bench_step", {"--side", "heddle", "--model", model, "--batch", "2", "--dtype",
                           "float32", "--provider", "native", "--json", "-"});
    INFO(model << result.err);
    REQUIRE(result.exit_code == 0);
    const auto side = nlohmann::json::parse(result.out)["steps"][0]["sides"][0];
    // Memory that is given back and fetched anew costs hundreds; a single one is the system's own.
    CHECK(side["minor_page_faults_per_step"] < 1.0);
    CHECK(side["loss"].get<double>() >= 0.0);
  }
}
#endif

}  // namespace heddle::test
