#pragma once

#include "heddle/core/rng.h"
#include "heddle/core/stream.h"
#include "heddle/kernels/augment.h"

namespace heddle {

/// What is drawn for each picture. Units: pixels.
struct AugmentRanges {
  int32_t padding = 0;  // down and right: -padding .. padding; 0: not drawn
  bool flip = false;    // whether it is drawn
  int32_t side = 0;     // cut_row and cut_column: 0 .. side - 1; 0: not drawn
};

/// The words of a stream in their order, as Rng::next gives them, on devices too.
struct RngWords {
  Rng rng;
  uint32_t used = 0;

  HEDDLE_INLINE uint32_t next() {
    const auto words = rng.block(used / 4);
    return words[used++ % 4];
  }
};

/// Uniform in 0 .. bound - 1, as Rng::next_below draws it. Words: Rng or RngWords.
template <class Words>
HEDDLE_INLINE int32_t draw_below(int32_t bound, Words& words) {
  const auto n = static_cast<uint32_t>(bound);
  const uint32_t reject_below = (0U - n) % n;  // 2^32 mod n
  for (;;) {
    const uint64_t product = uint64_t{words.next()} * n;
    if (static_cast<uint32_t>(product) >= reject_below) return static_cast<int32_t>(product >> 32);
  }
}

/// The draws of one picture, in this order those that there are.
template <class Words>
HEDDLE_INLINE AugmentDraw draw_augment(const AugmentRanges& ranges, Words& words) {
  AugmentDraw draw;
  if (ranges.padding > 0) {
    draw.down = draw_below(2 * ranges.padding + 1, words) - ranges.padding;
    draw.right = draw_below(2 * ranges.padding + 1, words) - ranges.padding;
  }
  if (ranges.flip) draw.flip = static_cast<int32_t>(words.next() >> 31);
  if (ranges.side > 0) {
    draw.cut_row = draw_below(ranges.side, words);
    draw.cut_column = draw_below(ranges.side, words);
  }
  return draw;
}

/// For each picture of a batch out of a set: draws[i] from the stream rng.after(indices[i]), and
/// labels[i] = set_labels[indices[i]].
struct AugmentDrawsArgs {
  AugmentDraw* draws;         // (n)
  int64_t* labels;            // (n)
  const int64_t* indices;     // (n)
  const int64_t* set_labels;  // (of the whole set)
  int64_t n;
  AugmentRanges ranges;
  Rng rng;  // of picture 0
};

namespace cpu {
void augment_draws(const AugmentDrawsArgs& args);
}  // namespace cpu

namespace cuda {
void augment_draws(const AugmentDrawsArgs& args, StreamRef stream);
}  // namespace cuda

}  // namespace heddle
