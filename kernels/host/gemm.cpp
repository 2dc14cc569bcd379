#include "heddle/kernels/host/gemm.h"

#include <algorithm>

#include "heddle/kernels/host/outer_product.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle::cpu {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t kPanelsBytes = 192 << 10;  // packed panels of one piece: part of a second level
constexpr int64_t kManyTiles = 32;           // rows enough to share a packed b
constexpr int64_t kLongDepth = 4096;         // sums long enough to be cut over threads
constexpr int64_t kFewBytes = 24 << 10;      // stay in a first-level cache
constexpr int64_t kOuterDepth = 256;         // rows of b whose panels stay in a first-level cache
constexpr int64_t kMinPiece = int64_t{1} << 18;  // multiply-adds that are worth a piece of work

/// Rows of memory that the next block will read: fetched little by little while this one computes.
struct RowsAhead {
  const char* data = nullptr;
  int64_t stride = 0, bytes = 0, rows = 0;

  template <class T>
  static RowsAhead of(const T* data, int64_t stride, int64_t cols, int64_t rows) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    return {reinterpret_cast<const char*>(data), stride * kSize, cols * kSize, rows};
  }
  /// The part-th of `parts` shares.
  void fetch(int64_t part, int64_t parts) const {
    if (rows == 0) return;
    const int64_t lines = ceil_div(bytes, kLine);
    const int64_t end = rows * lines * (part + 1) / parts;
    for (int64_t i = rows * lines * part / parts; i < end; ++i)
      __builtin_prefetch(data + i / lines * stride + i % lines * kLine, 0, 2);
  }

 private:
  static constexpr int64_t kLine = 64;
};

/// One panel of b against all rows of a table of one segment. `tile` says all that is the same for
/// the rows.
template <class T>
void multiply_panel(const TileTable<T>& table, RowsTile<T> tile, const RowsAhead& ahead = {}) {
  static constexpr int64_t kFirst = 0;
  const auto rows_tile = gemm_kernels<T>().rows_tile;
  tile.which = &kFirst;
  tile.segments = 1;
  tile.a_row = table.a_row();
  for (int64_t i = 0; i < table.tiles(); ++i) {
    tile.c = table.c(i);
    tile.a = table.a(i);
    tile.rows = table.rows(i);
    ahead.fetch(i, table.tiles());
    rows_tile(tile);
  }
}

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
    multiply_rows(TileTable<T>(end - begin, args.a + begin * args.a_row, args.a_row,
                               args.c + begin * args.c_row, args.c_row),
                  b, RowsEpilogue<T>{args.bias, args.relu});
  });
}

/// Columns n0 .. n1 of c, for which b is read once: packed, or as it lies in memory.
template <class T>
class ColumnRange {
 public:
  ColumnRange(const GemmArgs<T>& args, const TileTable<T>& rows, int64_t n0, int64_t n1)
      : args_(args),
        rows_(rows),
        n0_(n0),
        n1_(std::min(n1, args.n)),
        in_place_(args.b_col == 1 && rows.tiles() == 1),
        packed_(std::min(args.k, kDepthBlock) * (n1 - n0) * static_cast<int64_t>(sizeof(T))) {}

  void multiply() {
    const int64_t width = gemm_kernels<T>().nr;
    for (const DepthBlock& block : cut_depth(1, args_.k)) {
      for (int64_t n = n0_; n < n1_; n += width)
        if (!read_in_place(n)) pack_b(args_, packed(block, n), block.offset, block.length, n);
      if (block.length * (n1_ - n0_) * static_cast<int64_t>(sizeof(T)) <= kFewBytes) {
        multiply_by_rows(block);
      } else {
        for (int64_t n = n0_; n < n1_; n += width) multiply_panel(rows_, tile_of(block, n));
      }
    }
  }

 private:
  /// All panels stay in the first-level cache: whole rows of c are written one after the other.
  void multiply_by_rows(const DepthBlock& block) {
    const auto& [nr, rows_tile] = std::pair{gemm_kernels<T>().nr, gemm_kernels<T>().rows_tile};
    static constexpr int64_t kFirst = 0;
    for (int64_t i = 0; i < rows_.tiles(); ++i) {
      RowsTile<T> tile = tile_of(block, n0_);
      tile.which = &kFirst;
      tile.segments = 1;
      tile.a_row = rows_.a_row();
      tile.c = rows_.c(i);
      tile.a = rows_.a(i);
      tile.rows = rows_.rows(i);
      for (int64_t n = n0_; n < n1_; n += nr) {
        tile.b = read_in_place(n) ? args_.b + block.offset * args_.b_depth + n : packed(block, n);
        tile.b_row = read_in_place(n) ? args_.b_depth : nr;
        tile.c_offset = n;
        tile.cols = std::min(nr, args_.n - n);
        rows_tile(tile);
        if (tile.bias != nullptr) tile.bias += nr;
      }
    }
  }

  /// A last panel of fewer than nr columns is always packed: the kernel reads whole vectors.
  bool read_in_place(int64_t n) const { return in_place_ && n + gemm_kernels<T>().nr <= args_.n; }

  T* packed(const DepthBlock& block, int64_t n) const {
    return packed_.template as<T>() + (n - n0_) * block.length;
  }

  RowsTile<T> tile_of(const DepthBlock& block, int64_t n) const {
    const bool last = block.offset + block.length == args_.k;
    RowsTile<T> tile{};
    tile.b = read_in_place(n) ? args_.b + block.offset * args_.b_depth + n : packed(block, n);
    tile.b_row = read_in_place(n) ? args_.b_depth : gemm_kernels<T>().nr;
    tile.length = block.length;
    tile.bias = last && args_.bias != nullptr ? args_.bias + n : nullptr;
    tile.c_offset = n;
    tile.a_offset = block.offset;
    tile.cols = std::min(gemm_kernels<T>().nr, args_.n - n);
    tile.accumulate = block.offset > 0;
    tile.relu = last && args_.relu;
    return tile;
  }

  const GemmArgs<T>& args_;
  const TileTable<T>& rows_;
  int64_t n0_, n1_;
  bool in_place_;
  Scratch packed_;
};

/// Few rows: the columns are shared out.
template <class T>
void gemm_by_columns(const GemmArgs<T>& args) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  const TileTable<T> rows(args.m, args.a, args.a_row, args.c, args.c_row);
  const int64_t depth = std::min(args.k, kDepthBlock);
  const int64_t panel_bytes = depth * kernels.nr * static_cast<int64_t>(sizeof(T));
  const int64_t panels = ceil_div(args.n, kernels.nr);
  const int64_t group = std::clamp(kPanelsBytes / std::max<int64_t>(panel_bytes, 1), int64_t{1},
                                   std::max<int64_t>(panels / 16, 1));
  const int64_t worth = worth_a_piece(args.m * args.k * kernels.nr);
  parallel_ranges(panels, std::max(group, worth), [&](int64_t begin, int64_t end) {
    ColumnRange<T>(args, rows, begin * kernels.nr, end * kernels.nr).multiply();
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

/// One part of the sums of gemm_by_depth: its values k0 .. k0 + k go to `c` (m, n).
template <class T>
class DepthPart {
 public:
  DepthPart(const GemmArgs<T>& args, int64_t k0, int64_t k, T* c)
      : args_(args),
        k0_(k0),
        k_(k),
        padded_n_(ceil_div(args.n, gemm_kernels<T>().nr) * gemm_kernels<T>().nr),
        packed_(kDepthBlock * padded_n_ * static_cast<int64_t>(sizeof(T))),
        copied_a_(args.m * kRow * static_cast<int64_t>(sizeof(T))),
        rows_(args.m, copied_a_.template as<T>(), kRow, c, args.n) {}

  void multiply() {
    const int64_t width = gemm_kernels<T>().nr;
    const std::vector<DepthBlock> blocks = cut_depth(1, k_);
    for (size_t i = 0; i < blocks.size(); ++i) {
      const DepthBlock& block = blocks[i];
      // Rows that are a power of two apart share a few cache sets: a copy is dense.
      for (int64_t m = 0; m < args_.m; ++m)
        std::copy_n(args_.a + m * args_.a_row + k0_ + block.offset, block.length,
                    copied_a_.template as<T>() + m * kRow);
      for (int64_t n = 0; n < args_.n; n += width)
        pack_b(args_, packed_.template as<T>() + n * block.length, k0_ + block.offset, block.length,
               n);
      for (int64_t n = 0; n < args_.n; n += width)
        multiply_panel(rows_, tile_of(block, n),
                       i + 1 < blocks.size() ? ahead(blocks[i + 1], n) : RowsAhead{});
    }
  }

 private:
  static constexpr int64_t kRow = kDepthBlock + 16;

  RowsTile<T> tile_of(const DepthBlock& block, int64_t n) const {
    RowsTile<T> tile{};
    tile.b = packed_.template as<T>() + n * block.length;
    tile.b_row = gemm_kernels<T>().nr;
    tile.length = block.length;
    tile.c_offset = n;
    tile.cols = std::min(gemm_kernels<T>().nr, args_.n - n);
    tile.accumulate = block.offset > 0;
    return tile;
  }

  /// What the next block reads of b for the panel at n.
  RowsAhead ahead(const DepthBlock& next, int64_t n) const {
    if (args_.b_depth != 1) return {};
    return RowsAhead::of(args_.b + k0_ + next.offset + n * args_.b_col, args_.b_col, next.length,
                         std::min(gemm_kernels<T>().nr, args_.n - n));
  }

  const GemmArgs<T>& args_;
  int64_t k0_, k_, padded_n_;
  Scratch packed_, copied_a_;
  TileTable<T> rows_;
};

/// Few outputs with long sums: the sums are cut into parts. Both operands are read once.
template <class T>
void gemm_by_depth(const GemmArgs<T>& args) {
  const int64_t n_parts = std::min<int64_t>(16, args.k / (kLongDepth / 4));
  const int64_t part_k = ceil_div(ceil_div(args.k, n_parts), 64) * 64;
  const int64_t used = ceil_div(args.k, part_k);
  const Scratch parts(used * args.m * args.n * static_cast<int64_t>(sizeof(T)));
  parallel_for(used, [&](int64_t part) {
    DepthPart<T>(args, part * part_k, std::min(part_k, args.k - part * part_k),
                 parts.as<T>() + part * args.m * args.n)
        .multiply();
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

template <class T>
void gemm_dense(const GemmArgs<T>& args) {
  const int64_t tiles = ceil_div(args.m, gemm_kernels<T>().mr);
  if (tiles >= kManyTiles) {
    gemm_by_rows(args);
  } else if (args.k >= kLongDepth && args.k >= 8 * args.n) {
    gemm_by_depth(args);
  } else {
    gemm_by_columns(args);
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
