// y[i] = shift + scale * draw i. Draws are a function of the stream and i alone (Philox), so any
// number of threads gives the same bits.
#include "heddle/kernels/random.h"

#include "heddle/core/normal.h"
#include "heddle/kernels/host/convert.h"
#include "heddle/kernels/host/loop_nest.h"

namespace heddle {
namespace {

constexpr int64_t kWords = 4;  // of one Philox block

/// Elements begin .. end, where begin is a multiple of the draws in a block.
template <class T, class Draw>
void fill_range(const RandomArgs& args, int64_t begin, int64_t end, int64_t words_per_draw,
                const Draw& draw) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  T* y = static_cast<T*>(args.y.data);
  const int64_t per_block = kWords / words_per_draw;
  for (int64_t i = begin; i < end; i += per_block) {
    const auto words = args.rng.block(static_cast<uint32_t>(i / per_block));
    for (int64_t k = 0; k < per_block && i + k < end; ++k) {
      const C value = static_cast<C>(draw(&words[static_cast<size_t>(k * words_per_draw)]));
      y[i + k] = cpu::convert<T>(static_cast<C>(args.shift) + static_cast<C>(args.scale) * value);
    }
  }
}

template <class T>
void fill(const RandomArgs& args) {
  parallel_ranges(args.y.numel(), cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
    if (args.distribution == Distribution::kUniform)
      return fill_range<T>(args, begin, end, 1,
                           [](const uint32_t* words) { return uniform_from_bits(words[0]); });
    fill_range<T>(args, begin, end, 2,
                  [](const uint32_t* words) { return normal_from_bits(words[0], words[1]); });
  });
}

}  // namespace

void cpu::random(const RandomArgs& args) {
  dispatch_float(args.y.dtype, [&]<class T>() { fill<T>(args); });
}

}  // namespace heddle
