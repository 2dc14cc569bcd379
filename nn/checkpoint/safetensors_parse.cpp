#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "heddle/nn/checkpoint/safetensors.h"

namespace heddle {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;

std::optional<DType> dtype_from(std::string_view name) {
  if (name == "F32") return DType::kFloat32;
  if (name == "F64") return DType::kFloat64;
  if (name == "BF16") return DType::kBFloat16;
  if (name == "F16") return DType::kFloat16;
  if (name == "U8") return DType::kUInt8;
  if (name == "I64") return DType::kInt64;
  return std::nullopt;
}

/// The part of a name that a message shows: names are input too, and may be megabytes long.
std::string shown(std::string_view name) {
  constexpr size_t kShown = 80;
  if (name.size() <= kShown) return std::string(name);
  return std::string(name.substr(0, kShown)) + "...";
}

/// Takes the header's JSON event by event. Unlike a document tree this sees repeated keys, and
/// keeps nothing of what it refuses.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(SafetensorsHeader& header, std::string_view source)
      : header_(header), source_(source) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override {
    if (place_ == Place::kShape || place_ == Place::kOffsets)
      refuse("{}: found {}, expected a whole number of at least 0", where(), value);
    return unexpected("a number");
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return unexpected("a number");
    constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
    if (value > kMax) refuse("{}: found {}, expected at most {}", where(), value, kMax);
    place_ == Place::kShape ? add_size(static_cast<int64_t>(value))
                            : add_offset(static_cast<int64_t>(value));
    return true;
  }
  bool number_float(number_float_t, const string_t& text) override {
    refuse("{}: found {}, expected a whole number", where(), shown(text));
  }
  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      if (!header_.metadata.emplace(key_, value).second)
        refuse("__metadata__ has the key \"{}\" twice", shown(key_));
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return unexpected("a string");
    const std::optional<DType> dtype = dtype_from(value);
    if (!dtype)
      refuse("{}: found dtype {}, expected F64, F32, F16, BF16, I64 or U8", where(), shown(value));
    entry().dtype = *dtype;
    return true;
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool start_object(std::size_t) override {
    if (place_ == Place::kFile) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      start_tensor_or_metadata();
    } else {
      return unexpected("an object");
    }
    return true;
  }
  bool key(string_t& value) override {
    key_ = value;
    if (place_ == Place::kTensor) start_field();
    return true;
  }
  bool end_object() override {
    if (place_ == Place::kTensor && fields_ != 7)
      refuse("tensor \"{}\": found {} of dtype, shape and data_offsets, expected all three",
             shown(entry().name), std::popcount(fields_));
    place_ = place_ == Place::kTop ? Place::kFile : Place::kTop;
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return unexpected("an array");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }
  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_ != 2)
      refuse("{}: found {} numbers, expected 2", where(), offsets_);
    place_ = Place::kTensor;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    refuse("header is not JSON at byte {}: {}", position, shown(error.what()));
  }

 private:
  enum class Place { kFile, kTop, kMetadata, kTensor, kShape, kOffsets };

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail("safetensors: {}: {}", source_, fmt::format(format, std::forward<Args>(args)...));
  }
  bool unexpected(std::string_view what) const {
    refuse("{}: found {} where the format has none", where(), what);
  }
  SafetensorsEntry& entry() { return header_.entries.back(); }
  std::string where() const {
    if (place_ == Place::kFile) return "header";
    if (place_ == Place::kTop || place_ == Place::kMetadata) return "\"" + shown(key_) + "\"";
    return "tensor \"" + shown(header_.entries.back().name) + "\", " + shown(key_);
  }

  void start_tensor_or_metadata() {
    if (key_ == "__metadata__") {
      if (has_metadata_) refuse("the header has __metadata__ twice");
      has_metadata_ = true;
      place_ = Place::kMetadata;
      return;
    }
    header_.entries.emplace_back().name = key_;
    place_ = Place::kTensor;
    fields_ = 0;
    offsets_ = 0;
  }
  void start_field() {
    const unsigned field = key_ == "dtype"          ? 1U
                           : key_ == "shape"        ? 2U
                           : key_ == "data_offsets" ? 4U
                                                    : 0U;
    if (field == 0) refuse("{}: found a key that is not dtype, shape or data_offsets", where());
    if ((fields_ & field) != 0) refuse("{}: found the key twice", where());
    fields_ |= field;
  }
  void add_size(int64_t size) {
    if (entry().shape.size() == kMaxDims)
      refuse("{}: found more than {} dimensions", where(), kMaxDims);
    entry().shape.push_back(size);
  }
  void add_offset(int64_t offset) {
    if (offsets_ < 2) (offsets_ == 0 ? entry().begin : entry().end) = offset;
    ++offsets_;
  }

  SafetensorsHeader& header_;
  std::string_view source_;
  Place place_ = Place::kFile;
  std::string key_;
  unsigned fields_ = 0;  // bits: 1 dtype, 2 shape, 4 data_offsets
  int offsets_ = 0;      // numbers seen
  bool has_metadata_ = false;
};

/// Bytes of the tensor, or nothing where their number passes 2^63.
std::optional<int64_t> bytes_of(const SafetensorsEntry& entry) {
  int64_t bytes = size_of(entry.dtype);
  for (const int64_t size : entry.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  return bytes;
}

void check_layout(SafetensorsHeader& header, int64_t data_bytes, std::string_view source) {
  std::vector<SafetensorsEntry>& entries = header.entries;
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (size_t i = 1; i < entries.size(); ++i)
    if (entries[i].name == entries[i - 1].name)
      fail("safetensors: {}: tensor \"{}\" is there twice", source, shown(entries[i].name));
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t place = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string where =
        fmt::format("safetensors: {}: tensor \"{}\"", source, shown(entry.name));
    const std::optional<int64_t> bytes = bytes_of(entry);
    if (!bytes) fail("{}: shape {} is larger than any memory", where, entry.shape);
    if (entry.end < entry.begin || entry.end - entry.begin != *bytes)
      fail("{}: found data_offsets [{}, {}], expected {} bytes for {} {}", where, entry.begin,
           entry.end, *bytes, entry.dtype, entry.shape);
    if (entry.begin != place)
      fail("{}: found data that begins at {}, expected {} (no gap, no overlap)", where, entry.begin,
           place);
    place = entry.end;
  }
  if (place != data_bytes)
    fail("safetensors: {}: found {} bytes of data, expected {} by the header", source, data_bytes,
         place);
}

}  // namespace

namespace {

/// What else the file may be, as the end of the message.
std::string_view hint_for(std::string_view bytes) {
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("\x80\x02"))
    return "; this looks like a file of torch.save, write it with safetensors.torch.save_file";
  return "; is it a safetensors file?";
}

}  // namespace

SafetensorsHeader parse_safetensors(std::string_view bytes, std::string_view source) {
  if (bytes.size() < 8)
    fail("safetensors: {}: found {} bytes, expected at least 8 (the length of the header)", source,
         bytes.size());
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)  // little-endian
    length = length << 8 | static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
  if (length > kMaxHeaderBytes)
    fail("safetensors: {}: found a header of {} bytes, expected at most {}{}", source, length,
         kMaxHeaderBytes, hint_for(bytes));
  if (length > bytes.size() - 8)
    fail("safetensors: {}: found {} bytes after the length of the header, expected at least {}",
         source, bytes.size() - 8, length);
  const std::string_view text = bytes.substr(8, length);
  if (!text.starts_with('{')) fail("safetensors: {}: the header does not start with '{{'", source);
  SafetensorsHeader header;
  header.data_begin = static_cast<int64_t>(8 + length);
  HeaderReader reader(header, source);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  check_layout(header, static_cast<int64_t>(bytes.size()) - header.data_begin, source);
  return header;
}

}  // namespace heddle
