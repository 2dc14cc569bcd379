#include "heddle/kernels/host/gemm.h"

#include <algorithm>

#include "heddle/kernels/host/ceil_div.h"
#include "heddle/kernels/host/gemm_ways.h"
#include "heddle/kernels/host/outer_product.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle::cpu {
namespace {

constexpr int64_t kManyTiles = 32;     // rows enough to share a packed b
constexpr int64_t kLongDepth = 4096;   // sums long enough to be cut over threads
constexpr int64_t kColumnPieces = 32;  // few: a piece begins with nothing packed
constexpr int64_t kFewDots = 4;        // vectors of a sum that is worth a dot product
constexpr int64_t kManyDots = 32;      // the same where packed columns would be used often
constexpr int64_t kOuterDepth = 256;   // rows of b whose panels stay in a first-level cache
constexpr int64_t kMinPiece = int64_t{1} << 18;  // multiply-adds that are worth a piece of work

template <class T>
void pack_b(const GemmArgs<T>& args, T* packed, int64_t k0, int64_t depth, int64_t n0) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  const int64_t cols = std::min(kernels.nr, args.n - n0);
  const T* b = args.b + k0 * args.b_depth + n0 * args.b_col;
  if (args.b_col == 1) {
    kernels.pack_rows(packed, b, args.b_depth, cols, depth);
  } else {
    kernels.pack_transposed(packed, b, args.b_col, cols, depth);
  }
}

/// At least so many pieces' worth of `unit` multiply-adds that a thread's start pays.
int64_t worth_a_piece(int64_t unit) { return ceil_div(kMinPiece, std::max<int64_t>(unit, 1)); }

template <class T>
GemmArgs<T> rows_of(const GemmArgs<T>& args, int64_t m0, int64_t m1) {
  GemmArgs<T> part = args;
  part.m = m1 - m0;
  part.c += m0 * args.c_row;
  part.a += m0 * args.a_row;
  return part;
}

/// The product with args.b packed; one thread.
template <class T>
void multiply_packed(const GemmArgs<T>& args, const PackedMatrix<T>& b) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  DenseTile<T> tile{};
  tile.c_row = args.c_row;
  tile.a_row = args.a_row;
  tile.b_row = kernels.nr;
  tile.segments = 1;
  tile.rows = even_height(args.m, kernels.mr);
  for (const DepthBlock& block : b.blocks()) {
    tile.a = args.a + block.offset;
    tile.length = block.length;
    tile.accumulate = &block != &b.blocks().front();
    const bool is_last = &block == &b.blocks().back();
    tile.relu = is_last && args.relu;
    for (int64_t panel = 0; panel < b.panels(); ++panel) {
      const int64_t n = panel * kernels.nr;
      tile.b = b.panel(block, panel);
      tile.c = args.c + n;
      tile.cols = std::min(kernels.nr, args.n - n);
      tile.bias = is_last && args.bias != nullptr ? args.bias + n : nullptr;
      multiply_down(tile, args.m);
    }
  }
}

/// Many rows: b is packed once, and the rows are shared out.
template <class T>
void gemm_by_rows(const GemmArgs<T>& args) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  const PackedMatrix<T> b(1, args.k, args.n);
  parallel_ranges(
      b.panels(), worth_a_piece(args.k * kernels.nr * kernels.mr), [&](int64_t begin, int64_t end) {
        for (int64_t panel = begin; panel < end; ++panel)
          for (const DepthBlock& block : b.blocks())
            pack_b(args, b.panel(block, panel), block.offset, block.length, panel * kernels.nr);
      });
  const int64_t rows = std::max(8 * kernels.mr, worth_a_piece(args.k * args.n));
  parallel_ranges(args.m, rows, [&](int64_t begin, int64_t end) {
    multiply_packed(rows_of(args, begin, end), b);
  });
}

/// Columns n0 .. n1 of the product.
template <class T>
GemmArgs<T> columns_of(const GemmArgs<T>& args, int64_t n0, int64_t n1) {
  GemmArgs<T> part = args;
  part.n = n1 - n0;
  part.c += n0;
  part.b += n0 * args.b_col;
  if (args.bias != nullptr) part.bias += n0;
  return part;
}

/// Few rows: the columns are shared out.
template <class T>
void gemm_by_columns(const GemmArgs<T>& args, void (*multiply)(const GemmArgs<T>&)) {
  const int64_t nr = gemm_kernels<T>().nr;
  const int64_t panels = ceil_div(args.n, nr);
  const int64_t piece =
      std::max(ceil_div(panels, kColumnPieces), worth_a_piece(args.m * args.k * nr));
  parallel_ranges(panels, piece, [&](int64_t begin, int64_t end) {
    multiply(columns_of(args, begin * nr, std::min(end * nr, args.n)));
  });
}

/// c = the sum of the parts, in their order.
template <class T>
void add_parts(const GemmArgs<T>& args, const T* parts, int64_t n_parts) {
  parallel_ranges(args.m, 8, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      T* c = args.c + m * args.c_row;
      for (int64_t n = 0; n < args.n; ++n) {
        T sum = args.bias != nullptr ? args.bias[n] : T(0);
        for (int64_t part = 0; part < n_parts; ++part)
          sum += parts[(part * args.m + m) * args.n + n];
        c[n] = args.relu && sum < T(0) ? T(0) : sum;
      }
    }
  });
}

/// Few outputs with long sums: the sums are cut into parts. Both operands are read once.
template <class T>
void gemm_by_depth(const GemmArgs<T>& args, void (*multiply)(const GemmArgs<T>&)) {
  const int64_t n_parts = std::min<int64_t>(16, args.k / (kLongDepth / 4));
  const int64_t part_k = ceil_div(ceil_div(args.k, n_parts), 64) * 64;
  const int64_t used = ceil_div(args.k, part_k);
  const Scratch parts(used * args.m * args.n * static_cast<int64_t>(sizeof(T)));
  parallel_for(used, [&](int64_t part) {
    const int64_t k = part * part_k;
    multiply({args.m, args.n, std::min(part_k, args.k - k), parts.as<T>() + part * args.m * args.n,
              args.n, args.a + k * args.a_depth, args.a_row, args.a_depth,
              args.b + k * args.b_depth, args.b_depth, args.b_col});
  });
  add_parts(args, parts.as<T>(), used);
}

/// Few rows, with the sums along the rows of both operands: they are used as they lie.
template <class T>
void gemm_outer(const GemmArgs<T>& args) {
  const int64_t nr = gemm_kernels<T>().nr;
  const auto bytes = [](int64_t n) { return n * static_cast<int64_t>(sizeof(T)); };
  const int64_t depth = std::min(args.k, kOuterDepth);
  const int64_t worth = worth_a_piece(args.m * args.k * nr);
  parallel_ranges(ceil_div(args.n, nr), worth, [&](int64_t begin, int64_t end) {
    const Scratch space(3 * depth * static_cast<int64_t>(sizeof(T*)));
    const Scratch copies(end * nr > args.n ? bytes(depth * nr) : 0);
    const T** const a = space.as<const T*>();
    const T** const b = a + depth;
    const int64_t n = begin * nr;
    for (int64_t k0 = 0; k0 < args.k; k0 += depth) {
      const int64_t here = std::min(depth, args.k - k0);
      for (int64_t k = 0; k < here; ++k) {
        a[k] = args.a + (k0 + k) * args.a_depth;
        b[k] = args.b + (k0 + k) * args.b_depth + n;
      }
      add_outer<T>({args.c + n, args.c_row, a, b, 0, 0, here, args.m,
                    std::min(end * nr, args.n) - n, k0 > 0},
                   copies.template as<T>(), b + depth);
    }
  });
}

/// dst (rows, cols) dense = source with any strides.
template <class T>
void copy_dense(T* dst, const T* source, int64_t rows, int64_t cols, int64_t row_stride,
                int64_t col_stride) {
  constexpr int64_t kBlock = 16;  // both sides touch whole cache lines
  parallel_ranges(rows, kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t c0 = 0; c0 < cols; c0 += kBlock)
      for (int64_t r = begin; r < end; ++r)
        for (int64_t c = c0; c < std::min(cols, c0 + kBlock); ++c)
          dst[r * cols + c] = source[r * row_stride + c * col_stride];
  });
}

/// Chooses by the sizes alone.
template <class T>
void gemm_dense(const GemmArgs<T>& args) {
  const DotKernels<T>& dots = dot_kernels<T>();
  const bool few_cols = args.n <= kFewDotTiles * dots.cols;
  const bool many_tiles = ceil_div(args.m, gemm_kernels<T>().mr) >= kManyTiles;
  const bool along = args.b_depth == 1 && args.k >= (few_cols ? kFewDots : kManyDots) * dots.lanes;
  const auto multiply = along ? multiply_dots<T> : multiply_columns<T>;
  if (along && few_cols && args.k < kLongDepth) {
    parallel_ranges(args.m, worth_a_piece(args.k * args.n),
                    [&](int64_t begin, int64_t end) { multiply_dots(rows_of(args, begin, end)); });
  } else if (many_tiles) {
    gemm_by_rows(args);
  } else if (args.k >= kLongDepth && args.k >= 8 * args.n) {
    gemm_by_depth(args, multiply);
  } else {
    gemm_by_columns(args, multiply);
  }
}

}  // namespace

template <class T>
void gemm(const GemmArgs<T>& args) {
  if (args.m == 0 || args.n == 0) return;
  const bool plain = args.bias == nullptr && !args.relu && args.k > 0;
  if (plain && args.a_row == 1 && args.b_col == 1 && args.m <= 2 * gemm_kernels<T>().mr)
    return gemm_outer(args);
  GemmArgs<T> dense = args;
  const bool copies_a = args.a_depth != 1 && args.k > 1;
  const bool copies_b = args.b_col != 1 && args.b_depth != 1 && args.n > 1 && args.k > 1;
  const auto bytes = [](int64_t rows, int64_t cols) {
    return rows * cols * static_cast<int64_t>(sizeof(T));
  };
  const Scratch a(copies_a ? bytes(args.m, args.k) : 0);
  const Scratch b(copies_b ? bytes(args.k, args.n) : 0);
  if (copies_a) {
    copy_dense(a.as<T>(), args.a, args.m, args.k, args.a_row, args.a_depth);
    dense.a = a.as<T>();
    dense.a_row = args.k;
    dense.a_depth = 1;
  }
  if (copies_b) {
    copy_dense(b.as<T>(), args.b, args.k, args.n, args.b_depth, args.b_col);
    dense.b = b.as<T>();
    dense.b_depth = args.n;
    dense.b_col = 1;
  } else if (args.n == 1) {
    dense.b_col = args.b_depth == 1 ? args.k : 1;
  }
  gemm_dense(dense);
}

template void gemm<float>(const GemmArgs<float>&);
template void gemm<double>(const GemmArgs<double>&);

}  // namespace heddle::cpu
