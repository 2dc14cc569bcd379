// DS-1, DS-3, DS-4 and NU-3b of the list of known bugs, seen from the command line: data that are
// not right end the program with exit code 1 and one line, before a step and without a trace.
#include <filesystem>

#include "heddle/tests/apps/small_data.h"
#include "heddle/tests/apps/train_cifar.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFileBytes = 10'000 * kRecordBytes;

/// Six files of the full size, all zeros: valid records of class 0. Sparse.
void write_full_cifar(const fs::path& folder) {
  fs::create_directories(folder);
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
    write_text(folder / name, "");
    fs::resize_file(folder / name, kFileBytes);
  }
}

ProcessResult train_on(const std::string& data, const TemporaryFolder& folder,
                       std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"--data",  data,       "--out",        folder / "run",
                                     "--model", "tiny_cnn", "--batch-size", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_train_cifar(arguments);
}

void check_refused(const ProcessResult& result, const TemporaryFolder& folder,
                   const std::vector<std::string>& said) {
  CHECK(result.exit_code == 1);
  check_one_line(result);
  CHECK(result.out.find("accuracy") == std::string::npos);
  for (const std::string& text : said) CHECK_THAT(result.err, ContainsSubstring(text));
  CHECK_FALSE(fs::exists(folder / "run"));
}

}  // namespace

TEST_CASE("a data file of another size is refused with both sizes") {
  const TemporaryFolder folder;
  const fs::path data = folder / "data";
  write_full_cifar(data);
  for (const int64_t bytes :
       {kFileBytes - 1, kFileBytes - kRecordBytes, int64_t{0}, kFileBytes + 1}) {
    INFO(bytes);
    fs::resize_file(data / "data_batch_3.bin", static_cast<uintmax_t>(bytes));
    check_refused(train_on(data, folder), folder,
                  {"data_batch_3.bin", std::to_string(bytes), "30730000"});
  }
}

TEST_CASE("a folder that is not CIFAR-10's is refused with the missing files") {
  const TemporaryFolder folder;
  const fs::path data = folder / "data/cifar";
  write_small_cifar(data, 4, 6);
  fs::remove(data / "test_batch.bin");
  check_refused(train_on(data, folder, {"--allow-small"}), folder,
                {data.string(), "test_batch.bin"});
  check_refused(train_on(folder / "data", folder, {"--allow-small"}), folder, {folder / "data"});
  check_refused(train_on(data / "data_batch_1.bin", folder), folder, {"data_batch_1.bin"});
  check_refused(train_on(folder / "nowhere", folder), folder, {folder / "nowhere"});
  for (int i = 1; i <= 5; ++i) {
    const std::string name = "data_batch_" + std::to_string(i);
    fs::rename(data / (name + ".bin"), data / name);
  }
  check_refused(train_on(data, folder, {"--allow-small"}), folder,
                {data.string(), "data_batch_1.bin", "data_batch_5.bin", "test_batch.bin"});
}

TEST_CASE("a label that is no class is refused with its place") {
  const TemporaryFolder folder;
  const fs::path data = folder / "data";
  for (const int label : {10, 255}) {
    write_small_cifar(data, 10, 6);
    std::string bytes = read_text(data / "data_batch_2.bin");
    bytes[7 * kRecordBytes] = static_cast<char>(label);
    write_text(data / "data_batch_2.bin", bytes);
    check_refused(train_on(data, folder, {"--allow-small"}), folder,
                  {"data_batch_2.bin", "7", std::to_string(label)});
  }
}

TEST_CASE("downloaded data that are there already are used, and found again by a resume") {
  const TemporaryFolder folder;
  write_full_cifar(folder.path() / "data/cifar-10-batches-bin");
  const ProcessResult result =
      run_train_cifar({"--download", "--data", folder / "data", "--model", "tiny_cnn", "--limit",
                       "16", "--epochs", "1", "--out", folder / "run"});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("cifar-10-batches-bin: 16 training"));
  CHECK(run_train_cifar({"--resume", "--out", folder / "run", "--epochs", "2"}).exit_code == 0);
}

TEST_CASE("a resume with --download looks where --download does, whatever the run had before") {
  const TemporaryFolder folder;
  write_full_cifar(folder.path() / "cifar10/cifar-10-batches-bin");
  const auto train = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--download", "--out", "run"});
    return run_train_cifar(flags, {.directory = folder.path()});
  };
  REQUIRE(train({"--model", "tiny_cnn", "--limit", "16", "--epochs", "1"}).exit_code == 0);
  const ProcessResult resumed = train({"--resume", "--epochs", "2"});
  INFO(resumed.err);
  CHECK(resumed.exit_code == 0);
}

TEST_CASE("small files need --allow-small") {
  const TemporaryFolder folder;
  write_small_cifar(folder / "data", 4, 6);
  check_refused(train_on(folder / "data", folder), folder, {"30730000"});
  const ProcessResult result = train_on(folder / "data", folder, {"--allow-small", "--epochs=1"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("20 training and 6 test pictures"));
}

}  // namespace heddle::test
