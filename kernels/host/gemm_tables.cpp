#include <algorithm>

#include "heddle/kernels/host/ceil_div.h"
#include "heddle/kernels/host/gemm_ways.h"
#include "heddle/kernels/host/isa.h"

namespace heddle::cpu {
namespace {

template <class T, template <class> class Kernels>
const Kernels<T>& pick(const Kernels<float>& f32, const Kernels<double>& f64) {
  if constexpr (std::is_same_v<T, float>) {
    return f32;
  } else {
    return f64;
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

template <class T>
const DotKernels<T>& dot_kernels() {
#if defined(__x86_64__)
  switch (active_isa()) {
    case Isa::kAvx512:
      return pick<T>(isa_avx512::kDotFloat32, isa_avx512::kDotFloat64);
    case Isa::kAvx2:
      return pick<T>(isa_avx2::kDotFloat32, isa_avx2::kDotFloat64);
    case Isa::kBaseline:
      break;
  }
#endif
  return pick<T>(isa_baseline::kDotFloat32, isa_baseline::kDotFloat64);
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
void multiply_down(DenseTile<T> tile, int64_t rows) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  const int64_t rest = rows % tile.rows;
  tile.tiles = rows / tile.rows;
  tile.a_step = tile.rows * tile.a_row;
  tile.c_step = tile.rows * tile.c_row;
  kernels.dense_tile(tile);
  if (rest == 0) return;
  tile.a += tile.tiles * tile.a_step;
  tile.c += tile.tiles * tile.c_step;
  tile.rows = rest;
  tile.tiles = 1;
  kernels.dense_tile(tile);
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

#define HEDDLE_INSTANTIATE(T)                                                 \
  template const GemmKernels<T>& gemm_kernels<T>();                           \
  template const DotKernels<T>& dot_kernels<T>();                             \
  template class PackedMatrix<T>;                                             \
  template class TileTable<T>;                                                \
  template void multiply_down<T>(DenseTile<T>, int64_t);                      \
  template void multiply_rows<T>(const TileTable<T>&, const PackedMatrix<T>&, \
                                 const RowsEpilogue<T>&);
HEDDLE_INSTANTIATE(float)
HEDDLE_INSTANTIATE(double)
#undef HEDDLE_INSTANTIATE

}  // namespace heddle::cpu
