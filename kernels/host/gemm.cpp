#include "heddle/kernels/host/gemm.h"

#include <algorithm>

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle::cpu {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class T>
const GemmKernels<T>& pick(const GemmKernels<float>& f32, const GemmKernels<double>& f64) {
  if constexpr (std::is_same_v<T, float>) {
    return f32;
  } else {
    return f64;
  }
}

constexpr int64_t kPanelsBytes = 192 << 10;  // packed panels of one piece: part of a second level
constexpr int64_t kManyTiles = 32;           // rows enough to share a packed b
constexpr int64_t kLongDepth = 4096;         // sums long enough to be cut over threads

/// One panel of b against all rows of a table of one segment. `cols` of the panel are there.
template <class T>
void multiply_panel(const TileTable<T>& table, const T* packed, int64_t cols, int64_t length,
                    int64_t a_offset, int64_t c_offset, bool accumulate, const T* bias, bool relu) {
  static constexpr int64_t kFirst = 0;
  RowsTile<T> tile{};
  tile.b = packed;
  tile.which = &kFirst;
  tile.segments = 1;
  tile.length = length;
  tile.bias = bias;
  tile.c_offset = c_offset;
  tile.a_offset = a_offset;
  tile.cols = cols;
  tile.accumulate = accumulate;
  tile.relu = relu;
  tile.a_row = table.a_row();
  for (int64_t i = 0; i < table.tiles(); ++i) {
    tile.c = table.c(i);
    tile.a = table.a(i);
    tile.rows = table.rows(i);
    gemm_kernels<T>().rows_tile(tile);
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

/// Many rows: b is packed once, and the rows are shared out.
template <class T>
void gemm_by_rows(const GemmArgs<T>& args) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  const PackedMatrix<T> b(1, args.k, args.n);
  parallel_for(b.panels(), [&](int64_t panel) {
    for (const DepthBlock& block : b.blocks())
      pack_b(args, b.panel(block, panel), block.offset, block.length, panel * kernels.nr);
  });
  parallel_ranges(args.m, 8 * kernels.mr, [&](int64_t begin, int64_t end) {
    multiply_rows(TileTable<T>(end - begin, args.a + begin * args.a_row, args.a_row,
                               args.c + begin * args.c_row, args.c_row),
                  b, RowsEpilogue<T>{args.bias, args.relu});
  });
}

/// A few neighbouring panels of b, packed by the piece of work that needs them: b is read once.
template <class T>
void multiply_panels(const GemmArgs<T>& args, const TileTable<T>& rows, T* packed, int64_t n0,
                     int64_t n1) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  for (const DepthBlock& block : cut_depth(1, args.k)) {
    for (int64_t n = n0; n < n1; n += kernels.nr)
      pack_b(args, packed + (n - n0) * block.length, block.offset, block.length, n);
    const bool last = block.offset + block.length == args.k;
    for (int64_t n = n0; n < n1; n += kernels.nr) {
      multiply_panel(rows, packed + (n - n0) * block.length, std::min(kernels.nr, args.n - n),
                     block.length, block.offset, n, block.offset > 0,
                     last && args.bias != nullptr ? args.bias + n : nullptr, last && args.relu);
    }
  }
}

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
  parallel_ranges(panels, group, [&](int64_t begin, int64_t end) {
    const Scratch packed((end - begin) * panel_bytes);
    multiply_panels(args, rows, packed.as<T>(), begin * kernels.nr,
                    std::min(end * kernels.nr, args.n));
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
void gemm_by_depth(const GemmArgs<T>& args) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  const int64_t n_parts = std::min<int64_t>(16, args.k / (kLongDepth / 4));
  const int64_t part_k = ceil_div(ceil_div(args.k, n_parts), 64) * 64;
  const int64_t used = ceil_div(args.k, part_k);
  const Scratch parts(used * args.m * args.n * static_cast<int64_t>(sizeof(T)));
  const int64_t padded_n = ceil_div(args.n, kernels.nr) * kernels.nr;
  parallel_for(used, [&](int64_t part) {
    const int64_t k0 = part * part_k;
    const int64_t k = std::min(part_k, args.k - k0);
    const Scratch packed(kDepthBlock * padded_n * static_cast<int64_t>(sizeof(T)));
    const Scratch copied_a(args.m * (kDepthBlock + 16) * static_cast<int64_t>(sizeof(T)));
    T* const c = parts.as<T>() + part * args.m * args.n;
    const TileTable<T> rows(args.m, copied_a.as<T>(), kDepthBlock + 16, c, args.n);
    for (const DepthBlock& block : cut_depth(1, k)) {
      // Rows that are a power of two apart share a few cache sets: a copy is dense.
      for (int64_t m = 0; m < args.m; ++m)
        std::copy_n(args.a + m * args.a_row + k0 + block.offset, block.length,
                    copied_a.as<T>() + m * (kDepthBlock + 16));
      for (int64_t n = 0; n < args.n; n += kernels.nr)
        pack_b(args, packed.as<T>() + n * block.length, k0 + block.offset, block.length, n);
      for (int64_t n = 0; n < args.n; n += kernels.nr)
        multiply_panel<T>(rows, packed.as<T>() + n * block.length, std::min(kernels.nr, args.n - n),
                          block.length, 0, n, block.offset > 0, nullptr, false);
    }
  });
  add_parts(args, parts.as<T>(), used);
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
const GemmKernels<T>& gemm_kernels() {
#if defined(__x86_64__)
  switch (active_isa()) {
    case Isa::kAvx512:
      return pick<T>(isa_avx512::kGemmFloat32, isa_avx512::kGemmFloat64);
    case Isa::kAvx2:
      return pick<T>(isa_avx2::kGemmFloat32, isa_avx2::kGemmFloat64);
    case Isa::kBaseline:
      break;
  }
#endif
  return pick<T>(isa_baseline::kGemmFloat32, isa_baseline::kGemmFloat64);
}

std::vector<DepthBlock> cut_depth(int64_t segments, int64_t length) {
  std::vector<DepthBlock> blocks;
  int64_t before = 0;
  const int64_t n_chunks = std::max<int64_t>(ceil_div(length, kDepthBlock), 1);
  const int64_t chunk = std::min(length, ceil_div(ceil_div(length, n_chunks), 16) * 16);
  const int64_t step = std::max<int64_t>(kDepthBlock / std::max<int64_t>(chunk, 1), 1);
  int64_t offset = 0;
  do {  // at least one block, so that empty sums are written as zeros
    const int64_t here = std::min(chunk, length - offset);
    int64_t first = 0;
    do {
      const int64_t count = std::min(step, segments - first);
      blocks.push_back({first, count, offset, here, before});
      before += count * here;
      first += count;
    } while (first < segments);
    offset += here;
  } while (offset < length);
  return blocks;
}

template <class T>
PackedMatrix<T>::PackedMatrix(int64_t segments, int64_t length, int64_t cols)
    : blocks_(cut_depth(segments, length)),
      cols_(cols),
      nr_(gemm_kernels<T>().nr),
      panels_(ceil_div(cols, nr_)),
      data_(segments * length * panels_ * nr_ * static_cast<int64_t>(sizeof(T))) {}

template <class T>
TileTable<T>::TileTable(int64_t tiles, int64_t segments)
    : tiles_(tiles),
      segments_(segments),
      mr_(gemm_kernels<T>().mr),
      words_(tiles * (2 * segments + 2) * static_cast<int64_t>(sizeof(int64_t))),
      pointers_(tiles * (segments + 1) * mr_ * static_cast<int64_t>(sizeof(T*))) {}

template <class T>
TileTable<T>::TileTable(int64_t n_rows, const T* a, int64_t a_row, T* c, int64_t c_row)
    : TileTable(ceil_div(n_rows, gemm_kernels<T>().mr), 1) {
  a_row_ = a_row;
  for (int64_t tile = 0; tile < tiles_; ++tile) {
    rows(tile) = std::min(mr_, n_rows - tile * mr_);
    active(tile)[0] = 0;
    active_before(tile)[0] = 0;
    active_before(tile)[1] = 1;
    for (int64_t r = 0; r < rows(tile); ++r) {
      this->a(tile)[r] = a + (tile * mr_ + r) * a_row;
      this->c(tile)[r] = c + (tile * mr_ + r) * c_row;
    }
  }
}

template <class T>
void multiply_rows(const TileTable<T>& table, const PackedMatrix<T>& b,
                   const RowsEpilogue<T>& epilogue) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  for (const DepthBlock& block : b.blocks()) {
    const bool is_last = &block == &b.blocks().back();
    for (int64_t panel = 0; panel < b.panels(); ++panel) {
      const int64_t n0 = panel * kernels.nr;
      RowsTile<T> tile{};
      tile.b = b.panel(block, panel) - block.first * block.length * kernels.nr;
      tile.length = block.length;
      tile.bias = is_last && epilogue.bias != nullptr ? epilogue.bias + n0 : nullptr;
      tile.c_offset = epilogue.c_offset + n0;
      tile.a_offset = epilogue.a_offset + block.offset;
      tile.cols = std::min(kernels.nr, b.cols() - n0);
      tile.accumulate = &block != &b.blocks().front();
      tile.relu = is_last && epilogue.relu;
      tile.a_row = table.a_row();
      for (int64_t i = 0; i < table.tiles(); ++i) {
        const int64_t first = table.active_before(i)[block.first];
        tile.which = table.active(i) + first;
        tile.segments = table.active_before(i)[block.first + block.segments] - first;
        tile.c = table.c(i);
        tile.a = table.a(i);
        tile.rows = table.rows(i);
        kernels.rows_tile(tile);
      }
    }
  }
}

template <class T>
void gemm(const GemmArgs<T>& args) {
  if (args.m == 0 || args.n == 0) return;
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

#define HEDDLE_INSTANTIATE(T)                                                 \
  template const GemmKernels<T>& gemm_kernels<T>();                           \
  template class PackedMatrix<T>;                                             \
  template class TileTable<T>;                                                \
  template void multiply_rows<T>(const TileTable<T>&, const PackedMatrix<T>&, \
                                 const RowsEpilogue<T>&);                     \
  template void gemm<T>(const GemmArgs<T>&);
HEDDLE_INSTANTIATE(float)
HEDDLE_INSTANTIATE(double)
#undef HEDDLE_INSTANTIATE

}  // namespace heddle::cpu
