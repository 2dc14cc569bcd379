#include "heddle/parallel/fingerprint.h"

#include <algorithm>
#include <cstring>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"

namespace heddle {

uint64_t fingerprint(const Tensor& tensor) {
  if (!tensor.defined()) return 0;
  const NoGradGuard no_grad;
  const Tensor host = to(tensor.detach(), Device::cpu());
  const auto* bytes = static_cast<const unsigned char*>(host.raw_data());
  const int64_t n = host.numel() * size_of(host.dtype());
  uint64_t hash = 0xCBF29CE484222325U;
  for (int64_t i = 0; i < n; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, static_cast<size_t>(std::min<int64_t>(8, n - i)));
    hash = (hash ^ word) * 0x100000001B3U;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace heddle
