// c = a b with few rows: a group of packed panels of b in the second-level cache, times all rows,
// while the next group is packed.
#include <algorithm>

#include "heddle/kernels/host/ceil_div.h"
#include "heddle/kernels/host/gemm_ways.h"
#include "heddle/kernels/host/prefetch.h"

namespace heddle::cpu {
namespace {

constexpr int64_t kPanelsBytes = 96 << 10;  // packed panels: twice so much of a second-level cache
constexpr int64_t kFewBytes = 24 << 10;     // stay in a first-level cache

/// Some columns of a block of the depth: what is packed at a time.
struct Step {
  DepthBlock block;
  int64_t n0, n1;
};

template <class T>
class Columns {
 public:
  explicit Columns(const GemmArgs<T>& args)
      : args_(args),
        copies_a_(args.k > kDepthBlock && args.m > kernels_.mr),
        in_place_(args.b_col == 1 &&
                  (args.m <= kernels_.mr || args.k * args.n * kSize <= kFewBytes)),
        height_(even_height(args.m, kernels_.mr)),
        copied_a_(copies_a_ ? args.m * kCopiedRow * kSize : 0) {}

  void multiply() {
    const std::vector<Step> steps = cut_steps();
    const bool packs = !read_in_place(args_.n - args_.n % kernels_.nr -
                                      kernels_.nr * (args_.n % kernels_.nr == 0));
    const Scratch packed(packs ? packed_size_ * (steps.size() > 1 ? 2 : 1) * kSize : 0);
    streams_ = steps.size() > 1;
    T* here = packed.as<T>();
    T* ahead = here + (steps.size() > 1 ? packed_size_ : 0);
    pack(steps.front(), here, 0, steps.front().block.length);
    for (size_t i = 0; i < steps.size(); ++i) {
      multiply_step(steps[i], here, i + 1 < steps.size() ? &steps[i + 1] : nullptr, ahead);
      std::swap(here, ahead);
    }
  }

 private:
  static constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kLine = 64 / kSize;
  static constexpr int64_t kCopiedRow = kDepthBlock + kLine;

  std::vector<Step> cut_steps() {
    const std::vector<DepthBlock> blocks = cut_depth(1, args_.k);
    const int64_t depth = std::max<int64_t>(blocks.front().length, 1);
    const int64_t panels = ceil_div(args_.n, kernels_.nr);
    const int64_t group =
        std::clamp<int64_t>(kPanelsBytes / (depth * kernels_.nr * kSize), 1, panels);
    packed_size_ = depth * group * kernels_.nr;
    std::vector<Step> steps;
    for (int64_t n = 0; n < args_.n; n += group * kernels_.nr)
      for (const DepthBlock& block : blocks)
        steps.push_back({block, n, std::min(n + group * kernels_.nr, args_.n)});
    return steps;
  }

  /// `here` holds the step's panels. Those of `next` are packed meanwhile: memory is read while
  /// others compute, and only so much at a time that lines of rows a power of two apart do not
  /// drive each other from the cache.
  void multiply_step(const Step& step, const T* here, const Step* next, T* ahead) {
    if (copies_a_) copy_a(step.block);
    const int64_t panels = ceil_div(step.n1 - step.n0, kernels_.nr);
    const int64_t tiles = ceil_div(args_.m, height_) * panels;
    const int64_t share = next == nullptr ? 0 : share_of(next->block, tiles);
    // Panels but for a last, narrower one; in one call where nothing else is done between them.
    const int64_t whole = std::max<int64_t>((step.n1 - step.n0) / kernels_.nr, 1);
    const int64_t at_once = next == nullptr && !streams_ ? whole : 1;
    DenseTile<T> tile = tile_of(step.block);
    for (int64_t k = 0, row = 0; row < args_.m; row += height_) {
      tile.rows = std::min(height_, args_.m - row);
      for (int64_t panel = 0; panel < panels; panel += tile.tiles, k += share) {
        if (next != nullptr) fetch_b(*next, k + share, share);
        if (streams_)
          fetch_c(step, panel + 1 < panels ? row : row + height_,
                  panel + 1 < panels ? panel + 1 : 0);
        set_panel(tile, step, here, row, panel);
        tile.tiles = panel == 0 ? at_once : 1;
        kernels_.dense_tile(tile);
        if (next != nullptr) pack(*next, ahead, k, share);
      }
    }
  }

  /// All that is the same for the tiles of a block.
  DenseTile<T> tile_of(const DepthBlock& block) const {
    DenseTile<T> tile{};
    tile.c_row = args_.c_row;
    tile.a_row = copies_a_ ? kCopiedRow : args_.a_row;
    tile.segments = 1;
    tile.length = block.length;
    tile.accumulate = block.offset > 0;
    tile.relu = is_last(block) && args_.relu;
    tile.b_step = in_place_ ? kernels_.nr : kernels_.nr * block.length;
    tile.c_step = kernels_.nr;
    tile.bias_step = kernels_.nr;
    return tile;
  }

  void set_panel(DenseTile<T>& tile, const Step& step, const T* packed, int64_t row,
                 int64_t panel) const {
    const int64_t n = step.n0 + panel * kernels_.nr;
    const bool in_place = read_in_place(n);
    tile.b = in_place ? args_.b + step.block.offset * args_.b_depth + n
                      : packed + panel * kernels_.nr * step.block.length;
    tile.b_row = in_place ? args_.b_depth : kernels_.nr;
    tile.a =
        (copies_a_ ? copied_a_.template as<T>() : args_.a + step.block.offset) + row * tile.a_row;
    tile.c = args_.c + row * args_.c_row + n;
    tile.cols = std::min(kernels_.nr, args_.n - n);
    tile.bias = is_last(step.block) && args_.bias != nullptr ? args_.bias + n : nullptr;
  }

  bool is_last(const DepthBlock& block) const { return block.offset + block.length == args_.k; }

  /// A last panel of fewer than nr columns is always packed: the kernel reads whole vectors.
  bool read_in_place(int64_t n) const { return in_place_ && n + kernels_.nr <= args_.n; }

  /// Rows a power of two apart share a few sets of a cache: a copy is dense.
  void copy_a(const DepthBlock& block) {
    for (int64_t m = 0; m < args_.m; ++m)
      std::copy_n(args_.a + m * args_.a_row + block.offset, block.length,
                  copied_a_.template as<T>() + m * kCopiedRow);
  }

  /// How much of the depth is packed after each of `tiles`: whole vectors where b is transposed.
  int64_t share_of(const DepthBlock& block, int64_t tiles) const {
    const int64_t grain = args_.b_col == 1 ? 1 : 16;
    return ceil_div(ceil_div(block.length, tiles), grain) * grain;
  }

  /// The panels from k on, as far as there is something.
  void pack(const Step& step, T* packed, int64_t k, int64_t share) const {
    const int64_t depth = std::min(share, step.block.length - k);
    if (depth <= 0) return;
    for (int64_t n = step.n0; n < step.n1; n += kernels_.nr) {
      if (read_in_place(n)) continue;
      T* const to = packed + (n - step.n0) * step.block.length + k * kernels_.nr;
      const T* const b = args_.b + (step.block.offset + k) * args_.b_depth + n * args_.b_col;
      const int64_t cols = std::min(kernels_.nr, args_.n - n);
      if (args_.b_col == 1) {
        kernels_.pack_rows(to, b, args_.b_depth, cols, depth);
      } else {
        kernels_.pack_transposed(to, b, args_.b_col, cols, depth);
      }
    }
  }

  /// Fetches what `pack` will read.
  void fetch_b(const Step& step, int64_t k, int64_t share) const {
    if (in_place_ || args_.b_col != 1) return;
    const int64_t end = std::min(k + share, step.block.length);
    for (; k < end; ++k)
      for (int64_t n = step.n0; n < step.n1; n += kLine)
        fetch_line(args_.b + (step.block.offset + k) * args_.b_depth + n);
  }

  /// A store to memory that is in no cache holds up the stores behind it.
  void fetch_c(const Step& step, int64_t row, int64_t panel) const {
    const int64_t n0 = step.n0 + panel * kernels_.nr;
    for (int64_t m = row; m < std::min(row + height_, args_.m); ++m)
      for (int64_t n = n0; n < n0 + kernels_.nr; n += kLine)
        fetch_line_to_write(args_.c + m * args_.c_row + n);
  }

  const GemmArgs<T>& args_;
  const GemmKernels<T>& kernels_ = gemm_kernels<T>();
  bool copies_a_, in_place_;
  int64_t height_;        // of the tiles, but for the last
  bool streams_ = false;  // more than stays in a cache
  int64_t packed_size_ = 0;
  Scratch copied_a_;
};

}  // namespace

template <class T>
void multiply_columns(const GemmArgs<T>& args) {
  Columns<T>(args).multiply();
}

template void multiply_columns<float>(const GemmArgs<float>&);
template void multiply_columns<double>(const GemmArgs<double>&);

}  // namespace heddle::cpu
