// Whatever bytes a data file has, the reader refuses it with an Error or gives whole records.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "heddle/data/cifar10.h"

namespace {

void read_records(std::span<const uint8_t> bytes) {
  const int64_t n = heddle::check_cifar10(bytes, "fuzz.bin", {.allow_small = true});
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const heddle::ImageRecord image = heddle::cifar10_record(bytes, i);
    if (image.label < 0 || image.label >= heddle::kCifar10Classes) std::abort();
    for (int64_t j = 0; j < heddle::kImageBytes; ++j) sum += image.planes[j];
  }
  if (n < 1 || sum < 0) std::abort();
}

void read_names(std::string_view text) {
  if (heddle::parse_cifar10_names(text, "fuzz.txt").size() != 10) std::abort();
}

template <class Body>
void accept_errors(const Body& body) {
  try {
    body();
  } catch (const heddle::Error&) {  // a refusal is a right answer; any other exception is not
  }
}

}  // namespace

// The first byte chooses the reader. Files are long: for records, the input's bytes are repeated to
// as many records as the second byte says, plus its own length's odd bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  if ((data[0] & 1) != 0) {
    accept_errors([&] { read_names({reinterpret_cast<const char*>(data + 1), size - 1}); });
    return 0;
  }
  const std::vector<uint8_t> input(data + 2, data + size);
  accept_errors([&] { read_records(input); });
  if (input.empty()) return 0;
  std::vector<uint8_t> file(static_cast<size_t>(heddle::kCifar10RecordBytes) * (data[1] % 8U) +
                            (data[0] >> 7));
  for (size_t i = 0; i < file.size(); ++i) file[i] = input[i % input.size()];
  accept_errors([&] { read_records(file); });
  return 0;
}
