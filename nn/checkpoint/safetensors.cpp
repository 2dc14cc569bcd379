#include "heddle/nn/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "heddle/core/tape.h"
#include "heddle/nn/checkpoint/atomic_file.h"
#include "heddle/nn/ops.h"

namespace heddle {
namespace {

std::string_view format_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "F32";
    case DType::kFloat64:
      return "F64";
    case DType::kBFloat16:
      return "BF16";
    case DType::kFloat16:
      return "F16";
    case DType::kUInt8:
      return "U8";
    case DType::kInt64:
      return "I64";
  }
  fail("save_safetensors: dtype {} is not one of heddle's", static_cast<int>(dtype));
}

int64_t bytes_of(const Tensor& tensor) { return tensor.numel() * size_of(tensor.dtype()); }

/// Widest elements first, so that every tensor is aligned; then by name.
NamedTensors in_file_order(NamedTensors tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    const int64_t width_a = size_of(a.second.dtype());
    const int64_t width_b = size_of(b.second.dtype());
    return width_a != width_b ? width_a > width_b : a.first < b.first;
  });
  return tensors;
}

std::string header_text(const NamedTensors& tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> names;
  int64_t place = 0;
  for (const auto& [name, tensor] : tensors) {
    HEDDLE_CHECK(name != "__metadata__" && names.insert(name).second,
                 "save_safetensors: the name \"{}\" is there twice or reserved", name);
    const int64_t end = place + bytes_of(tensor);
    const std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
    header[name] = {
        {"dtype", format_name(tensor.dtype())}, {"shape", shape}, {"data_offsets", {place, end}}};
    place = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begin aligned
  return text;
}

std::shared_ptr<void> map_file(const std::filesystem::path& path, int64_t& bytes) {
  // O_NONBLOCK: a pipe is refused below, not waited for.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail("safetensors: cannot open {}: {}", path.string(), std::strerror(errno));
  const std::shared_ptr<void> closes(nullptr, [descriptor](void*) { close(descriptor); });
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    fail("safetensors: {} is not a file", path.string());
  bytes = status.st_size;
  if (bytes == 0) return nullptr;
  const size_t size = static_cast<size_t>(bytes);
  // Private and writable: pages that are written to become this process's own, and the file stays
  // as it is. Unreserved: the rest costs no memory, whatever the size of the file.
  void* data =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
  if (data == MAP_FAILED)
    fail("safetensors: cannot map {}: {}", path.string(), std::strerror(errno));
  return {data, [size](void* mapped) { munmap(mapped, size); }};
}

/// An entry's data where they lie, or a copy where another writer did not align them.
std::shared_ptr<Storage> storage_of(const SafetensorsEntry& entry, char* data,
                                    const std::shared_ptr<void>& mapping) {
  char* begin = data + entry.begin;
  const int64_t bytes = entry.end - entry.begin;
  if (reinterpret_cast<uintptr_t>(begin) % static_cast<uintptr_t>(size_of(entry.dtype)) == 0)
    return std::make_shared<Storage>(Device::cpu(), begin, bytes, mapping);
  auto copy = std::make_shared<Storage>(Device::cpu(), bytes);
  if (bytes > 0) std::memcpy(copy->data(), begin, static_cast<size_t>(bytes));
  return copy;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : mapping_(map_file(path, bytes_)),
      header_(parse_safetensors(
          {static_cast<const char*>(mapping_.get()), static_cast<size_t>(bytes_)}, path.string())) {
  for (const SafetensorsEntry& entry : header_.entries)
    storages_.push_back(
        storage_of(entry, static_cast<char*>(mapping_.get()) + header_.data_begin, mapping_));
}

NamedTensors SafetensorsFile::tensors() const {
  NamedTensors result;
  for (size_t i = 0; i < storages_.size(); ++i) {
    const SafetensorsEntry& entry = header_.entries[i];
    result.emplace_back(entry.name, Tensor::from_storage(storages_[i], entry.shape,
                                                         strides_for(entry.shape), 0, entry.dtype));
  }
  return result;
}

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata) {
  const NamedTensors ordered = in_file_order(tensors);
  const std::string header = header_text(ordered, metadata);
  std::array<char, 8> length{};
  for (size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i) & 0xFF);
  const NoGradGuard no_grad;
  AtomicFile file(path);
  file.write(length.data(), length.size());
  file.write(header);
  for (const auto& [name, tensor] : ordered) {
    const Tensor row_major = to(contiguous(tensor), Device::cpu());
    if (bytes_of(row_major) > 0)
      file.write(row_major.raw_data(), static_cast<size_t>(bytes_of(row_major)));
  }
  file.commit();
}

}  // namespace heddle
