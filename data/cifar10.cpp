#include "heddle/data/cifar10.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "heddle/data/mapped_file.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle {

namespace fs = std::filesystem;

struct Cifar10::Files {
  std::vector<MappedFile> mapped;
  std::vector<int64_t> begins;  // index of each file's first record, then the number of all
  std::vector<std::string> names;
};

namespace {

constexpr std::string_view kExpected = "data_batch_1.bin to data_batch_5.bin and test_batch.bin";
constexpr int64_t kMaxMetaBytes = 1 << 16;

std::vector<std::string> file_names(Split split) {
  if (split == Split::kTest) return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back(fmt::format("data_batch_{}.bin", i));
  return names;
}

std::vector<std::string> all_file_names() {
  std::vector<std::string> names = file_names(Split::kTrain);
  names.push_back("test_batch.bin");
  return names;
}

bool present(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// What else the folder may be, or where the data are to be had, as the end of the message.
std::string hint_for(const fs::path& folder) {
  if (present(folder / "cifar-10-batches-bin"))
    return fmt::format("; its subfolder looks right: give {}",
                       (folder / "cifar-10-batches-bin").string());
  if (present(folder / "data_batch_1") || present(folder / "cifar-10-batches-py"))
    return "; this looks like the Python version of CIFAR-10, the binary version is needed";
  if (present(folder / "data_batch_1.mat"))
    return "; this looks like the Matlab version of CIFAR-10, the binary version is needed";
  if (present(folder / "train.bin") || present(folder / "cifar-100-binary"))
    return "; this looks like CIFAR-100, CIFAR-10 is needed";
  if (present(folder / "cifar-10-binary.tar.gz"))
    return "; cifar-10-binary.tar.gz in it has not been unpacked";
  return "; train_cifar --download fetches them";
}

void check_folder(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!fs::exists(status))
    fail("cifar10: {} does not exist, expected a folder with {}{}", folder.string(), kExpected,
         hint_for(folder));
  if (!fs::is_directory(status))
    fail("cifar10: {} is a file, expected the folder with {}", folder.string(), kExpected);
  std::string missing;
  for (const std::string& name : all_file_names())
    if (!present(folder / name)) missing += (missing.empty() ? "" : ", ") + name;
  if (!missing.empty()) fail("cifar10: {} lacks {}{}", folder.string(), missing, hint_for(folder));
}

void check_size(int64_t bytes, std::string_view name, const Cifar10Options& options) {
  const int64_t records = bytes / kCifar10RecordBytes;
  if (options.allow_small) {
    if (bytes % kCifar10RecordBytes != 0 || records < 1 || records > kCifar10FileRecords)
      fail("cifar10: {} has {} bytes, expected 1 to {} records of {} bytes", name, bytes,
           kCifar10FileRecords, kCifar10RecordBytes);
  } else if (bytes != kCifar10FileBytes) {
    fail("cifar10: {} has {} bytes, expected {} ({} records of {} bytes)", name, bytes,
         kCifar10FileBytes, kCifar10FileRecords, kCifar10RecordBytes);
  }
}

/// All six sizes, whichever split is opened: a broken set is found before training starts.
void check_sizes(const fs::path& folder, const Cifar10Options& options) {
  for (const std::string& name : all_file_names()) {
    const fs::path path = folder / name;
    std::error_code error;
    if (!fs::is_regular_file(path, error))
      fail("cifar10: {} is not an ordinary file", path.string());
    const auto bytes = fs::file_size(path, error);
    if (error) fail("cifar10: {} cannot be read: {}", path.string(), error.message());
    check_size(static_cast<int64_t>(bytes), path.string(), options);
  }
}

std::vector<std::string> default_names() {
  return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
}

std::vector<std::string> read_names(const fs::path& path) {
  if (!present(path)) return default_names();
  if (!fs::is_regular_file(path)) fail("cifar10: {} is not an ordinary file", path.string());
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(kMaxMetaBytes), '\0');
  file.read(text.data(), kMaxMetaBytes);
  text.resize(static_cast<size_t>(file.gcount()));
  return parse_cifar10_names(text, path.string());
}

}  // namespace

int64_t check_cifar10(std::span<const uint8_t> bytes, std::string_view name,
                      const Cifar10Options& options) {
  check_size(static_cast<int64_t>(bytes.size()), name, options);
  const int64_t records = static_cast<int64_t>(bytes.size()) / kCifar10RecordBytes;
  for (int64_t i = 0; i < records; ++i) {
    const uint8_t label = bytes[static_cast<size_t>(i * kCifar10RecordBytes)];
    if (label >= kCifar10Classes)
      fail("cifar10: {}: record {} (counted from 0) has label {}, expected 0 to {}", name, i, label,
           kCifar10Classes - 1);
  }
  return records;
}

ImageRecord cifar10_record(std::span<const uint8_t> bytes, int64_t index) {
  const uint8_t* record = bytes.data() + index * kCifar10RecordBytes;
  return {record + 1, record[0]};
}

std::vector<std::string> parse_cifar10_names(std::string_view text, std::string_view name) {
  std::vector<std::string> names;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (names.size() != static_cast<size_t>(kCifar10Classes))
    fail("cifar10: {} has {} class names, expected {}", name, names.size(), kCifar10Classes);
  return names;
}

Cifar10::Cifar10(const fs::path& folder, Split split, const Cifar10Options& options) {
  check_folder(folder);
  check_sizes(folder, options);
  auto files = std::make_shared<Files>();
  files->names = read_names(folder / "batches.meta.txt");
  for (const std::string& name : file_names(split)) files->mapped.emplace_back(folder / name);
  std::vector<int64_t> records(files->mapped.size());
  parallel_for(static_cast<int64_t>(records.size()), [&](int64_t i) {
    const MappedFile& file = files->mapped[static_cast<size_t>(i)];
    records[static_cast<size_t>(i)] = check_cifar10(file.bytes(), file.path().string(), options);
    file.check_unchanged();
  });
  files->begins = {0};
  for (const int64_t n : records) files->begins.push_back(files->begins.back() + n);
  files_ = std::move(files);
}

int64_t Cifar10::size() const { return files_->begins.back(); }

ImageRecord Cifar10::record(int64_t index) const {
  HEDDLE_CHECK(index >= 0 && index < size(), "cifar10: sample {} of {}", index, size());
  const auto after = std::upper_bound(files_->begins.begin(), files_->begins.end(), index);
  const int64_t file = after - files_->begins.begin() - 1;
  return cifar10_record(files_->mapped[static_cast<size_t>(file)].bytes(),
                        index - files_->begins[static_cast<size_t>(file)]);
}

std::vector<std::string> Cifar10::class_names() const { return files_->names; }

void Cifar10::check_source() const {
  for (const MappedFile& file : files_->mapped) file.check_unchanged();
}

}  // namespace heddle
