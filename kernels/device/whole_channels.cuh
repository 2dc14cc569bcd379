#pragma once

// Images and filters whose channels are whole chunks of 16 bytes: as they are, or a copy with zeros
// after each.
#include <algorithm>

#include "heddle/kernels/device/pack.cuh"
#include "heddle/kernels/device/scratch.h"

namespace heddle {

template <class T>
inline constexpr int64_t kChunk = 16 / static_cast<int64_t>(sizeof(T));

template <class T>
int64_t whole_channels(int64_t channels) {
  return std::max<int64_t>(1, (channels + kChunk<T> - 1) / kChunk<T>) * kChunk<T>;
}

/// (lines, channels), dense, as whole chunks: `data` where it is that already, else a copy.
template <class T>
class WholeChannels {
 public:
  WholeChannels(const void* data, int64_t lines, int64_t channels, StreamRef stream)
      : channels_(whole_channels<T>(channels)),
        is_whole_(channels == channels_ &&
                  is_aligned<static_cast<int>(kChunk<T>)>(static_cast<const T*>(data))),
        copy_(is_whole_ ? 0 : lines * channels_ * static_cast<int64_t>(sizeof(T)), stream),
        data_(is_whole_ ? static_cast<const T*>(data) : copy_.as<T>()) {
    if (is_whole_ || lines == 0 || channels == 0) return;
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, T>;
    pack(copy_.as<Bits>(), static_cast<const Bits*>(data),
         PackSource{1, lines, channels, 0, channels, 1}, stream);
  }
  const T* data() const { return data_; }
  int64_t channels() const { return channels_; }

 private:
  int64_t channels_;
  bool is_whole_;
  DeviceScratch copy_;
  const T* data_;
};

}  // namespace heddle
