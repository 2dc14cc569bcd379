// Standard streams that are closed, full, or no longer read.
#include "heddle/apps/support/streams.h"

#include <signal.h>

#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

/// The command through a shell, with `redirections` behind it.
ProcessResult run_redirected(const std::vector<std::string>& arguments,
                             const std::string& redirections) {
  std::vector<std::string> command{"/bin/sh", "-c", "exec \"$0\" \"$@\" " + redirections};
  for (const std::string& word : train_cifar(arguments)) command.push_back(word);
  return run_process(command);
}

}  // namespace

TEST_CASE("with closed standard streams nothing that is printed goes into the run's files") {
  const TemporaryFolder folder;
  int run = 0;
  for (const std::string closed : {"<&- >&-", ">&- 2>&-", "<&- 2>&-", "<&- >&- 2>&-"}) {
    const std::string out = folder / std::to_string(++run);
    const ProcessResult result =
        run_redirected({"--model", "tiny_cnn", "--limit", "16", "--epochs", "2", "--threads", "1",
                        "--workers", "0", "--provider", "native", "--out", out},
                       closed);
    INFO(closed);
    CHECK(result.exit_code == 0);
    std::istringstream lines(read_text(out + "/metrics.jsonl"));
    int n_lines = 0;
    for (std::string line; std::getline(lines, line); ++n_lines)
      CHECK(nlohmann::json::accept(line));
    CHECK(n_lines == 4);  // 2 steps and 2 epochs
  }
}

TEST_CASE("an error that cannot be shown keeps its exit code") {
  for (const std::string lost : {"2>&-", "2>/dev/full"}) {
    CHECK(run_redirected({"--lr", "-1"}, lost).exit_code == 2);
    CHECK(run_redirected({"--resume", "/nowhere/checkpoint"}, lost).exit_code == 1);
  }
}

TEST_CASE("the other programs keep their exit codes and notice lost output too") {
  for (const std::string program : {"bench_kernels", "bench_loader", "bench_step"}) {
    INFO(program);
    const std::string path = HEDDLE_BIN_FOLDER "/" + program;
    const auto exit_code = [&](const std::string& rest) {
      return run_process({"/bin/sh", "-c", "exec \"$0\" " + rest, path}).exit_code;
    };
    CHECK(exit_code("--no-such-flag") == 2);
    CHECK(exit_code("--no-such-flag 2>&-") == 2);
    CHECK(exit_code("--help") == 0);
    CHECK(exit_code("--help >/dev/full") == 1);
  }
}

TEST_CASE("output that is lost to a full disk is an error, and the run is kept") {
  const TrainingGround ground;
  for (const char* flag : {"--help", "--version", "--list-devices", "--summary"}) {
    const ProcessResult result = run_redirected({flag}, ">/dev/full");
    INFO(flag);
    CHECK(result.exit_code == 1);
    check_one_line(result);
  }
  const ProcessResult result = run_redirected(ground.flags("run", {"--epochs", "2"}), ">/dev/full");
  CHECK(result.exit_code == 1);
  check_one_line(result);
  CHECK_THAT(ground.resume("run").out, ContainsSubstring("already at epoch 2 of 2"));
}

TEST_CASE("a run whose reader or terminal goes away saves and can go on") {
  const TrainingGround ground;
  for (const int signal : {SIGHUP, SIGPIPE}) {
    const std::string out = signal == SIGHUP ? "hup" : "pipe";
    Process process(train_cifar(ground.flags(out, {"--epochs", "2000"})));
    REQUIRE(process.wait_for("1/2000"));
    process.send(signal);
    process.send(signal);  // more of them are no wish to end at once
    const ProcessResult stopped = process.wait();
    CHECK(stopped.exit_code == 130);
    check_one_line(stopped);
    const size_t done = ground.metrics(out, "step").size();
    const size_t epochs = ground.metrics(out, "epoch").size();
    const ProcessResult resumed = ground.resume(out, {"--epochs", std::to_string(epochs + 1)});
    CHECK(resumed.exit_code == 0);
    CHECK_THAT(resumed.out, ContainsSubstring("resuming after step " + std::to_string(done)));
  }
}

TEST_CASE("nohup keeps a run alive when the terminal goes away") {
  const TrainingGround ground;
  std::vector<std::string> command{"/bin/sh", "-c", "trap '' HUP; exec \"$0\" \"$@\""};
  for (const std::string& word : train_cifar(ground.flags("run", {"--epochs", "30"})))
    command.push_back(word);
  Process process(command);
  REQUIRE(process.wait_for("epoch 1/30"));
  process.send(SIGHUP);
  CHECK(process.wait().exit_code == 0);
}

TEST_CASE("errors stay one line whatever names hold") {
  CHECK(apps::escape_controls("a\nb\x1b[1m") == "a\\x0ab\\x1b[1m");
  CHECK(apps::escape_controls("gr\xc3\xbc\xc3\x9f") == "gr\xc3\xbc\xc3\x9f");
  const ProcessResult flag = run_train_cifar({"--model", "a\nb"});
  CHECK(flag.exit_code == 2);
  check_one_line(flag);
  const ProcessResult data = run_train_cifar({"--data", "no\nsuch"});
  CHECK(data.exit_code == 1);
  check_one_line(data);
}

}  // namespace heddle::test
