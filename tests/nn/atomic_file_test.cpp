#include "heddle/nn/checkpoint/atomic_file.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "heddle/core/rng.h"
#include "heddle/nn/checkpoint/safetensors.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/temporary_folder.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int64_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

/// Runs `body` in a child process; its result is the exit status.
template <class Body>
pid_t start_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}

int status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_CASE("atomic file: nothing shows before the commit") {
  const test::TemporaryFolder folder;
  write_file_atomically(folder / "f", "old");
  {
    AtomicFile file(folder / "f");
    file.write("new");
    CHECK(content(folder / "f") == "old");
  }
  CHECK(content(folder / "f") == "old");
  CHECK(files_in(folder.path()) == 1);
  write_file_atomically(folder / "f", "newer");
  CHECK(content(folder / "f") == "newer");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("atomic file: errors name the file and the cause") {
  const test::TemporaryFolder folder;
  CHECK_THROWS_WITH(write_file_atomically(folder / "none" / "f", "x"),
                    ContainsSubstring("none/f") && ContainsSubstring("No such file"));
  fs::create_directory(folder / "d");
  CHECK_THROWS_WITH(write_file_atomically(folder / "d", "x"), ContainsSubstring("cannot rename"));
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("atomic file: what a killed writer left is removed, what a living one writes is not") {
  const test::TemporaryFolder folder;
  std::ofstream(folder / ".f.tmp-999999-0") << "left over";
  std::ofstream(folder / ".g.tmp-999999-0") << "of another target";
  AtomicFile living(folder / "f");
  living.write("living");
  write_file_atomically(folder / "f", "x");
  CHECK_FALSE(fs::exists(folder / ".f.tmp-999999-0"));
  CHECK(fs::exists(folder / ".g.tmp-999999-0"));
  living.commit();
  CHECK(content(folder / "f") == "living");
  CHECK(files_in(folder.path()) == 2);
}

TEST_CASE("atomic file: past a file-size limit there is an error and the old file stands") {
  const test::TemporaryFolder folder;
  const Tensor tensor = Tensor::from(std::vector<float>(50'000, 1.0F), {50'000});
  save_safetensors(folder / "f", {{"w", tensor}});
  const std::string before = content(folder / "f");
  const int status = status_of(start_child([&] {
    const rlimit limit{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      save_safetensors(folder / "f", {{"w", tensor}});
    } catch (const Error& error) {
      return std::string_view(error.what()).find("File too large") != std::string_view::npos ? 1
                                                                                             : 3;
    }
    return 2;
  }));
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(content(folder / "f") == before);
  CHECK(files_in(folder.path()) == 1);
}

/// Mounts a small file system on `folder` in a mount table of this process's own.
bool mount_small_disk(const fs::path& folder) {
  const bool root = geteuid() == 0;
  if (unshare(root ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  return mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=300k") == 0;
}

TEST_CASE("atomic file: a full disk gives an error and the old file stands") {
  const test::TemporaryFolder folder;
  const int status = status_of(start_child([&] {
    if (!mount_small_disk(folder.path())) return 77;
    write_file_atomically(folder / "f", "old");
    try {
      write_file_atomically(folder / "f", std::string(1'000'000, 'x'));
    } catch (const Error& error) {
      const std::string_view text = error.what();
      if (text.find("No space left") == std::string_view::npos) return 3;
      return content(folder / "f") == "old" && files_in(folder.path()) == 1 ? 1 : 4;
    }
    return 2;
  }));
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77)
    WARN("skipped: this system lets the test mount no file system of its own");
  else
    CHECK(WEXITSTATUS(status) == 1);
}

TEST_CASE("atomic file: killed at any moment of a save, the target holds one whole version") {
  const test::TemporaryFolder folder;
  const fs::path target = folder / "model.safetensors";
  const auto save = [&](float value) {
    const std::vector<float> values(300'000, value);
    save_safetensors(
        target, {{"a", Tensor::from(values, {300'000})}, {"b", Tensor::from(values, {300'000})}},
        {{"value", std::to_string(value)}});
  };
  save(0.0F);
  Rng rng(7, RngPurpose::kUser);
  for (int round = 0; round < 50; ++round) {
    const pid_t child = start_child([&] {
      for (float value = 1.0F;; value += 1.0F) save(value);
      return 0;
    });
    usleep(500 + rng.next_below(12'000));
    kill(child, SIGKILL);
    status_of(child);
    const SafetensorsFile file(target);
    const NamedTensors tensors = file.tensors();
    REQUIRE(tensors.size() == 2);
    const float value = tensors[0].second.data<float>()[0];
    CHECK(file.metadata().at("value") == std::to_string(value));
    for (const auto& [name, tensor] : tensors)
      CHECK(tensor.to_vector<float>() == std::vector<float>(300'000, value));
  }
  save(0.0F);
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("atomic file: two processes that save to one name leave one whole file") {
  const test::TemporaryFolder folder;
  const auto writer = [&](char letter) {
    return [&folder, letter] {
      for (int i = 0; i < 100; ++i)
        write_file_atomically(folder / "f", std::string(100'000, letter));
      return 0;
    };
  };
  const pid_t a = start_child(writer('a'));
  const pid_t b = start_child(writer('b'));
  CHECK(status_of(a) == 0);
  CHECK(status_of(b) == 0);
  const std::string text = content(folder / "f");
  REQUIRE(text.size() == 100'000);
  CHECK(text == std::string(100'000, text[0]));
  CHECK(files_in(folder.path()) == 1);
}

}  // namespace
}  // namespace heddle
