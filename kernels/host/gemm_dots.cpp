// c = a b where both operands lie along the depth (a linear layer's x w^T): tiles of dot products
// (isa/dot_kernels.cpp), b read once, as it lies.
#include <algorithm>

#include "heddle/kernels/host/ceil_div.h"
#include "heddle/kernels/host/gemm_ways.h"

namespace heddle::cpu {
namespace {

/// Of the rows and columns of a tile, which stay in a first-level cache.
constexpr int64_t kDepthBytes = 4 << 10;

/// 0 .. size in `count` ranges of `step`; the last may be shorter, or empty.
struct Cut {
  int64_t size, count, step;
  Cut(int64_t n, int64_t ranges) : size(n), count(ranges), step(ceil_div(n, ranges)) {}
  int64_t begin(int64_t i) const { return std::min(size, i * step); }
  int64_t length(int64_t i) const { return begin(i + 1) - begin(i); }
};

template <class T>
class Dots {
 public:
  explicit Dots(const GemmArgs<T>& args)
      : args_(args),
        rows_(args.m, ceil_div(args.m, kernels_.rows)),
        cols_(args.n, ceil_div(args.n, kernels_.cols)),
        copies_a_(cols_.count > kFewDotTiles),
        copies_(copies_a_ ? 2 * args.m * kCopiedRow * kSize : 0) {}

  void multiply() {
    for (int64_t row = 0; copies_a_ && row < args_.m; ++row) copy_a(0, row);
    for (int64_t k = 0; k == 0 || k < args_.k; k += kDepth) multiply_block(k);
  }

 private:
  static constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kDepth = kDepthBytes / kSize;
  static constexpr int64_t kCopiedRow = kDepth + 64 / kSize;  // a cache line more

  void multiply_block(int64_t k) const {
    if (copies_a_) return stream_columns(k);
    for (int64_t i = 0; i < rows_.count; ++i)
      for (int64_t j = 0; j < cols_.count; ++j) kernels_.tile(tile_of(k, i, j));
  }

  /// Many columns: a block of a is read again and again, from a copy, since rows that are a power
  /// of two apart share a few sets of the cache. While some columns are multiplied with all rows,
  /// the next columns and the next rows to copy are fetched, one with each tile.
  void stream_columns(int64_t k) const {
    const bool is_last = k + kDepth >= args_.k;
    const Cut copied(is_last ? 0 : args_.m, cols_.count);
    for (int64_t j = 0; j < cols_.count; ++j) {
      for (int64_t i = 0; i < rows_.count; ++i) {
        DotTile<T> tile = tile_of(k, i, j);
        const int64_t row = copied.begin(j) + i - cols_.step;
        if (i < cols_.step && !(is_last && j + 1 == cols_.count)) {
          tile.ahead = next_column(k, j, i);
        } else if (row >= copied.begin(j) && row < copied.begin(j + 1)) {
          tile.ahead = args_.a + row * args_.a_row + k + kDepth;
        }
        kernels_.tile(tile);
      }
      for (int64_t row = copied.begin(j); row < copied.begin(j + 1); ++row) copy_a(k + kDepth, row);
    }
  }

  /// Column i of those that come after the j-th.
  const T* next_column(int64_t k, int64_t j, int64_t i) const {
    const bool wraps = j + 1 == cols_.count;
    const int64_t col = (wraps ? 0 : cols_.begin(j + 1)) + i;
    return args_.b + std::min(col, args_.n - 1) * args_.b_col + k + (wraps ? kDepth : 0);
  }

  DotTile<T> tile_of(int64_t k, int64_t i, int64_t j) const {
    const bool is_last = k + kDepth >= args_.k;
    const int64_t row = rows_.begin(i);
    const int64_t col = cols_.begin(j);
    DotTile<T> tile{};
    tile.c = args_.c + row * args_.c_row + col;
    tile.c_row = args_.c_row;
    tile.a = copies_a_ ? copied_row(k, row) : args_.a + row * args_.a_row + k;
    tile.a_row = copies_a_ ? kCopiedRow : args_.a_row;
    tile.b = args_.b + col * args_.b_col + k;
    tile.b_col = args_.b_col;
    tile.depth = std::min(kDepth, args_.k - k);
    tile.rows = rows_.length(i);
    tile.cols = cols_.length(j);
    tile.accumulate = k > 0;
    if (is_last && args_.bias != nullptr) tile.bias = args_.bias + col;
    tile.relu = is_last && args_.relu;
    tile.ahead = tile.a;
    return tile;
  }

  T* copied_row(int64_t k, int64_t row) const {
    return copies_.template as<T>() + (k / kDepth % 2 * args_.m + row) * kCopiedRow;
  }

  /// A row of a's block from k on.
  void copy_a(int64_t k, int64_t row) const {
    std::copy_n(args_.a + row * args_.a_row + k, std::min(kDepth, args_.k - k), copied_row(k, row));
  }

  const GemmArgs<T>& args_;
  const DotKernels<T>& kernels_ = dot_kernels<T>();
  Cut rows_, cols_;
  bool copies_a_;
  Scratch copies_;
};

}  // namespace

template <class T>
void multiply_dots(const GemmArgs<T>& args) {
  Dots<T>(args).multiply();
}

template void multiply_dots<float>(const GemmArgs<float>&);
template void multiply_dots<double>(const GemmArgs<double>&);

}  // namespace heddle::cpu
