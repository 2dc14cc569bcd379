#include "heddle/data/mapped_file.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "heddle/core/error.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/temporary_folder.h"

namespace fs = std::filesystem;
using heddle::MappedFile;
using heddle::test::TemporaryFolder;

namespace {

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Runs `body` in a child process. What it wrote to its error stream goes to `text`.
template <class Body>
int status_of_child(const Body& body, std::string& text) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  char buffer[512];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("mapped_file: shows a file's bytes") {
  const TemporaryFolder folder;
  write(folder / "f", "hello");
  MappedFile file(folder / "f");
  REQUIRE(std::string(file.bytes().begin(), file.bytes().end()) == "hello");
  MappedFile moved = std::move(file);
  REQUIRE(moved.bytes().size() == 5);
  write(folder / "g", "");
  moved = MappedFile(folder / "g");
  REQUIRE(moved.bytes().empty());
  REQUIRE(moved.path() == folder / "g");
  REQUIRE_NOTHROW(moved.check_unchanged());
}

TEST_CASE("mapped_file: what is no readable file is an error") {
  const TemporaryFolder folder;
  REQUIRE_THROWS_WITH(MappedFile(folder / "none"), ContainsSubstring("none cannot be opened"));
  REQUIRE_THROWS_WITH(MappedFile(folder.path()), ContainsSubstring("not an ordinary file"));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  REQUIRE_THROWS_WITH(MappedFile(folder / "pipe"), ContainsSubstring("not an ordinary file"));
}

TEST_CASE("mapped_file: changes are noticed") {
  const TemporaryFolder folder;
  write(folder / "f", "hello");
  const MappedFile file(folder / "f");
  REQUIRE_NOTHROW(file.check_unchanged());
  fs::resize_file(folder / "f", 2);
  REQUIRE_THROWS_WITH(file.check_unchanged(),
                      ContainsSubstring("changed during the run: it has 2 bytes, had 5"));
  write(folder / "f", "world");
  fs::last_write_time(folder / "f", fs::last_write_time(folder / "f") + std::chrono::hours(1));
  REQUIRE_THROWS_WITH(file.check_unchanged(), ContainsSubstring("was written during the run"));
}

TEST_CASE("mapped_file: a page that is gone reads as zeros and is an error of the next check") {
  const TemporaryFolder folder;
  write(folder / "f", std::string(100'000, 'x'));
  const MappedFile file(folder / "f");
  const MappedFile other(folder / "f");
  fs::resize_file(folder / "f", 0);
  std::string text;
  const int status = status_of_child(
      [&] {
        heddle::explain_bus_errors();
        const volatile uint8_t* data = file.bytes().data();
        if (data[50'000] != 0) _exit(2);
        fs::resize_file(folder / "f", 100'000);  // its size alone no longer tells
        try {
          file.check_unchanged();
        } catch (const heddle::Error& error) {
          const std::string_view said = error.what();
          _exit(::write(STDERR_FILENO, said.data(), said.size()) > 0 ? 7 : 3);
        }
      },
      text);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 7);
  REQUIRE_THAT(text, ContainsSubstring("f could not be read: it was cut short"));
}

TEST_CASE("mapped_file: SIGBUS elsewhere still ends the process") {
  std::string text;
  const int status = status_of_child(
      [] {
        heddle::explain_bus_errors();
        raise(SIGBUS);
        raise(SIGBUS);
      },
      text);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == SIGBUS);
}
