#include <cstddef>
#include <cstdint>
#include <string_view>

#include "heddle/core/error.h"
#include "heddle/nn/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const heddle::SafetensorsHeader header = heddle::parse_safetensors(bytes, "fuzz");
    int64_t place = header.data_begin;
    for (const heddle::SafetensorsEntry& entry : header.entries)
      place += heddle::numel(entry.shape) * heddle::size_of(entry.dtype);
    if (place != static_cast<int64_t>(size)) __builtin_trap();  // what was accepted is whole
  } catch (const heddle::Error&) {
  }
  return 0;
}
