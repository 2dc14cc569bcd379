#include "heddle/apps/train_cifar/run_folder.h"

#include "heddle/core/error.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/process.h"

namespace heddle::train_cifar {
namespace {

using test::read_text;
using test::TemporaryFolder;
using test::write_text;

}  // namespace

TEST_CASE("a run folder is made with its parents and belongs to one owner") {
  const TemporaryFolder folder;
  const std::string path = folder / "a/b";
  RunFolder::check(path, FolderUse::kNew);
  CHECK_FALSE(std::filesystem::exists(path));
  {
    RunFolder run(path, FolderUse::kNew);
    run.append_metrics({{"event", "step"}, {"step", 1}});
    CHECK_THROWS_WITH(RunFolder(path, FolderUse::kResume),
                      ContainsSubstring("another process is writing there"));
  }
  const RunFolder again(path, FolderUse::kResume);
  CHECK(read_text(again.metrics()) == "{\"event\":\"step\",\"step\":1}\n");
}

TEST_CASE("a folder that holds a run is kept unless it is to be replaced") {
  const TemporaryFolder folder;
  write_text(folder / "model.safetensors", "weights");
  write_text(folder / "notes.txt", "mine");
  CHECK_THROWS_WITH(RunFolder(folder.path(), FolderUse::kNew),
                    ContainsSubstring("already holds a run") && ContainsSubstring("--overwrite"));
  CHECK(read_text(folder / "model.safetensors") == "weights");
  const RunFolder run(folder.path(), FolderUse::kOverwrite);
  CHECK_FALSE(std::filesystem::exists(run.model()));
  CHECK(read_text(folder / "notes.txt") == "mine");
}

TEST_CASE("a path that cannot be a folder is refused") {
  const TemporaryFolder folder;
  write_text(folder / "file", "text");
  CHECK_THROWS_WITH(RunFolder::check(folder / "file", FolderUse::kNew),
                    ContainsSubstring("is a file"));
  CHECK_THROWS_WITH(RunFolder::check(folder / "file/run", FolderUse::kNew),
                    ContainsSubstring("is a file"));
  CHECK_THROWS_WITH(RunFolder("/proc/heddle", FolderUse::kNew), ContainsSubstring("/proc/heddle"));
}

TEST_CASE("metrics lose what a continued run does again") {
  const TemporaryFolder folder;
  RunFolder run(folder.path(), FolderUse::kNew);
  for (int step = 1; step <= 3; ++step) run.append_metrics({{"event", "step"}, {"step", step}});
  run.append_metrics({{"event", "epoch"}, {"epoch", 1}, {"step", 3}});
  run.append_metrics({{"event", "step"}, {"step", 4}});
  run.append_metrics({{"event", "epoch"}, {"epoch", 2}, {"step", 4}});
  const std::string before = read_text(run.metrics());
  write_text(run.metrics(), before + "{\"event\":\"st");
  run.trim_metrics(3, 1);
  CHECK(read_text(run.metrics()) ==
        before.substr(0, before.find("{\"event\":\"step\",\"step\":4")));
  run.append_metrics({{"event", "step"}, {"step", 4}});
  CHECK_THAT(read_text(run.metrics()), ContainsSubstring("\"step\":4}\n"));
}

}  // namespace heddle::train_cifar
