#include "heddle/data/cifar10.h"

#include <cstdlib>
#include <fstream>

#include "heddle/data/loader.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/temporary_folder.h"

namespace fs = std::filesystem;
using heddle::Cifar10;
using heddle::kCifar10FileBytes;
using heddle::kCifar10RecordBytes;
using heddle::Split;
using heddle::test::TemporaryFolder;

namespace {

constexpr heddle::Cifar10Options kSmall = {.allow_small = true};

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// `n` records of this label and this value in every pixel.
std::string records(int n, int label, int value) {
  std::string one(static_cast<size_t>(kCifar10RecordBytes), static_cast<char>(value));
  one[0] = static_cast<char>(label);
  std::string all;
  for (int i = 0; i < n; ++i) all += one;
  return all;
}

/// Five training files of 4 x rec(3, 128) and a test file of 6 x rec(5, 255).
void write_small(const fs::path& folder) {
  for (int i = 1; i <= 5; ++i)
    write(folder / fmt::format("data_batch_{}.bin", i), records(4, 3, 128));
  write(folder / "test_batch.bin", records(6, 5, 255));
}

/// Files of the full size without their bytes: all labels are 0.
void write_full(const fs::path& folder) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
    write(folder / name, "");
    fs::resize_file(folder / name, static_cast<uintmax_t>(kCifar10FileBytes));
  }
}

}  // namespace

TEST_CASE("cifar10: records land in their own split, bytes unchanged (DS-3)") {
  const TemporaryFolder folder;
  write_small(folder.path());
  const Cifar10 train(folder.path(), Split::kTrain, kSmall);
  const Cifar10 test(folder.path(), Split::kTest, kSmall);
  REQUIRE(train.size() == 20);
  REQUIRE(test.size() == 6);
  for (int64_t i = 0; i < 20; ++i) {
    REQUIRE(train.record(i).label == 3);
    REQUIRE(train.record(i).planes[0] == 128);
    REQUIRE(train.record(i).planes[heddle::kImageBytes - 1] == 128);
  }
  for (int64_t i = 0; i < 6; ++i) REQUIRE(test.record(i).label == 5);
  const heddle::Sample sample = test.get(5);
  REQUIRE(sample.label == 5);
  REQUIRE(sample.value.shape() == heddle::Shape{3, 32, 32});
  REQUIRE(sample.value.at({2, 31, 31}) == 255);
  REQUIRE(train.class_names()[3] == "cat");
  REQUIRE_THROWS_WITH(train.record(20), ContainsSubstring("sample 20 of 20"));
  REQUIRE_THROWS_WITH(train.record(-1), ContainsSubstring("sample -1 of 20"));
}

TEST_CASE("cifar10: the order is that of files and records") {
  const TemporaryFolder folder;
  write_small(folder.path());
  write(folder / "data_batch_2.bin", records(1, 7, 1) + records(1, 8, 2));
  const Cifar10 train(folder.path(), Split::kTrain, kSmall);
  REQUIRE(train.size() == 18);
  REQUIRE(train.record(3).label == 3);
  REQUIRE(train.record(4).label == 7);
  REQUIRE(train.record(5).label == 8);
  REQUIRE(train.record(5).planes[0] == 2);
  REQUIRE(train.record(6).label == 3);
}

TEST_CASE("cifar10: full files are accepted without the small switch") {
  const TemporaryFolder folder;
  write_full(folder.path());
  REQUIRE(Cifar10(folder.path(), Split::kTrain).size() == 50'000);
  REQUIRE(Cifar10(folder.path(), Split::kTest).size() == 10'000);
}

TEST_CASE("cifar10: short, long and empty files are refused (DS-1)") {
  const TemporaryFolder folder;
  write_full(folder.path());
  for (const int64_t bytes : {int64_t{30'729'999}, int64_t{30'726'927}, int64_t{0},
                              int64_t{30'730'001}, 2 * kCifar10FileBytes}) {
    fs::resize_file(folder / "data_batch_3.bin", static_cast<uintmax_t>(bytes));
    const std::string found =
        fmt::format("data_batch_3.bin has {} bytes, expected 30730000", bytes);
    REQUIRE_THROWS_WITH(Cifar10(folder.path(), Split::kTrain), ContainsSubstring(found));
    REQUIRE_THROWS_WITH(Cifar10(folder.path(), Split::kTest), ContainsSubstring(found));
  }
  REQUIRE_THROWS_WITH(heddle::check_cifar10({}, "x.bin", {}), ContainsSubstring("has 0 bytes"));
}

TEST_CASE("cifar10: small files still hold whole records") {
  const TemporaryFolder folder;
  write_small(folder.path());
  REQUIRE_THROWS_WITH(Cifar10(folder.path(), Split::kTrain),
                      ContainsSubstring("data_batch_1.bin has 12292 bytes, expected 30730000"));
  write(folder / "data_batch_4.bin", records(2, 3, 1) + "x");
  REQUIRE_THROWS_WITH(
      Cifar10(folder.path(), Split::kTrain, kSmall),
      ContainsSubstring("data_batch_4.bin has 6147 bytes, expected 1 to 10000 records"));
  write(folder / "data_batch_4.bin", "");
  REQUIRE_THROWS_WITH(Cifar10(folder.path(), Split::kTrain, kSmall),
                      ContainsSubstring("data_batch_4.bin has 0 bytes"));
}

TEST_CASE("cifar10: labels past 9 are named with file and record (NU-3)") {
  for (const int label : {10, 255}) {
    const TemporaryFolder folder;
    write_small(folder.path());
    write(folder / "data_batch_5.bin", records(7, 9, 0) + records(1, label, 0));
    REQUIRE_THROWS_WITH(Cifar10(folder.path(), Split::kTrain, kSmall),
                        ContainsSubstring("data_batch_5.bin: record 7 ") &&
                            ContainsSubstring(fmt::format("has label {}, expected 0 to 9", label)));
    REQUIRE_NOTHROW(Cifar10(folder.path(), Split::kTest, kSmall));
  }
}

TEST_CASE("cifar10: all missing files are named at once (DS-4)") {
  const TemporaryFolder folder;
  write_small(folder.path());
  fs::remove(folder / "test_batch.bin");
  fs::remove(folder / "data_batch_2.bin");
  for (const Split split : {Split::kTrain, Split::kTest})
    REQUIRE_THROWS_WITH(
        Cifar10(folder.path(), split, kSmall),
        ContainsSubstring(folder.path().string() + " lacks data_batch_2.bin, test_batch.bin"));
}

TEST_CASE("cifar10: the wrong folder is told apart (DS-4)") {
  const TemporaryFolder folder;
  const auto message = [&](const fs::path& path) {
    try {
      const Cifar10 opened(path, Split::kTrain);
    } catch (const heddle::Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const fs::path& path = folder.path();
  REQUIRE_THAT(message(path), ContainsSubstring("data_batch_1.bin, data_batch_2.bin, "
                                                "data_batch_3.bin, data_batch_4.bin, "
                                                "data_batch_5.bin, test_batch.bin"));
  REQUIRE_THAT(message(path), ContainsSubstring("train_cifar --download fetches them"));
  REQUIRE_THAT(message(path / "none"), ContainsSubstring("none does not exist"));
  write(path / "file", "x");
  REQUIRE_THAT(message(path / "file"), ContainsSubstring("file is a file, expected the folder"));
  write(path / "cifar-10-binary.tar.gz", "x");
  REQUIRE_THAT(message(path), ContainsSubstring("has not been unpacked"));
  write(path / "train.bin", "x");
  REQUIRE_THAT(message(path), ContainsSubstring("CIFAR-100"));
  write(path / "data_batch_1", "x");
  REQUIRE_THAT(message(path), ContainsSubstring("Python version"));
  fs::create_directory(path / "cifar-10-batches-bin");
  REQUIRE_THAT(message(path), ContainsSubstring("give " + path.string() + "/cifar-10-batches-bin"));
}

TEST_CASE("cifar10: a folder in a file's place is refused") {
  const TemporaryFolder folder;
  write_small(folder.path());
  fs::remove(folder / "test_batch.bin");
  fs::create_directory(folder / "test_batch.bin");
  REQUIRE_THROWS_WITH(Cifar10(folder.path(), Split::kTest, kSmall),
                      ContainsSubstring("test_batch.bin is not an ordinary file"));
}

TEST_CASE("cifar10: class names come from batches.meta.txt where there is one") {
  const TemporaryFolder folder;
  write_small(folder.path());
  write(folder / "batches.meta.txt", "a\r\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  REQUIRE(Cifar10(folder.path(), Split::kTest, kSmall).class_names()[9] == "j");
  write(folder / "batches.meta.txt", "a\nb\n");
  REQUIRE_THROWS_WITH(Cifar10(folder.path(), Split::kTest, kSmall),
                      ContainsSubstring("batches.meta.txt has 2 class names, expected 10"));
}

TEST_CASE("cifar10: a file that is cut or written during the run is an error, no crash") {
  const TemporaryFolder folder;
  write_small(folder.path());
  for (const int workers : {0, 2}) {
    heddle::Loader loader(Cifar10(folder.path(), Split::kTest, kSmall),
                          {.batch_size = 2, .workers = workers});
    for (const heddle::Batch& batch : loader) REQUIRE(batch.size() == 2);
    fs::resize_file(folder / "test_batch.bin", 0);
    REQUIRE_THROWS_WITH(loader.begin(),
                        ContainsSubstring("test_batch.bin changed during the run: it has 0 bytes"));
    write(folder / "test_batch.bin", records(6, 5, 255));
  }
}

TEST_CASE("cifar10: the real pictures, where HEDDLE_DATA has them") {
  const char* root = std::getenv("HEDDLE_DATA");
  const fs::path folder = fs::path(root == nullptr ? "" : root) / "cifar-10-batches-bin";
  if (root == nullptr || !fs::exists(folder)) {
    SUCCEED("no real data at hand: generated files above cover the reader");
    return;
  }
  const Cifar10 train(folder, Split::kTrain);
  const Cifar10 test(folder, Split::kTest);
  REQUIRE(train.size() == 50'000);
  REQUIRE(test.size() == 10'000);
  std::vector<int64_t> counts(10);
  double sum = 0;
  for (int64_t i = 0; i < train.size(); ++i) {
    const heddle::ImageRecord image = train.record(i);
    ++counts[static_cast<size_t>(image.label)];
    for (int64_t j = 0; j < heddle::kImagePixels; ++j) sum += image.planes[j];
  }
  REQUIRE(counts == std::vector<int64_t>(10, 5000));
  REQUIRE(sum / (50'000.0 * 1024 * 255) == Approx(heddle::kCifar10Mean[0]).margin(0.005));
}
