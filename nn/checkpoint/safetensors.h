#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/tensor.h"
#include "heddle/nn/state.h"

namespace heddle {

/// What the header of a safetensors file says about one tensor, checked.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  int64_t begin = 0;  ///< Units: bytes from the end of the header.
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  ///< In the order of their data.
  int64_t data_begin = 0;                 ///< Units: bytes from the start of the file.
};

/// Reads and checks the header of a file that lies in memory. `source` is named in messages.
/// Errors: a size, offset, dtype, shape, name or order that the format does not allow; a gap,
/// overlap or rest in the data; a header above 100 MB. Nothing of the data is read.
/// Source: the format's specification, huggingface/safetensors README.
SafetensorsHeader parse_safetensors(std::string_view bytes, std::string_view source);

/// A safetensors file, mapped into memory. Tensors read from it share the mapping, which is
/// private: what is written to them never reaches the file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);  ///< Errors: as parse_safetensors.

  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  /// All tensors, row-major, over the mapping (copied where the file does not align them). Every
  /// call gives the same memory, with one count of writes to it.
  NamedTensors tensors() const;

 private:
  int64_t bytes_ = 0;
  std::shared_ptr<void> mapping_;
  SafetensorsHeader header_;
  std::vector<std::shared_ptr<Storage>> storages_;  // of header_.entries
};

/// Writes `tensors` (in logical row-major order whatever their strides) and `metadata` as one file,
/// atomically: see AtomicFile. Errors: a name twice, and those of AtomicFile.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace heddle
