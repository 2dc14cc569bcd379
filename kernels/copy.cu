// target = source, for any strides and dtypes. Memory-bound: one read and one write an element.
// Where the source runs along another dimension than the target (NCHW to NHWC and back), tiles are
// turned in shared memory, so that both sides touch whole sectors. Deterministic.
#include "heddle/kernels/copy.h"

#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/nest.cuh"
#include "heddle/kernels/device/shared.cuh"

namespace heddle {
namespace {

constexpr int kTile = 32;     // a warp's row; 32 bytes, one sector, of the smallest elements
constexpr int kTileRows = 8;  // warps of a block: each takes 4 rows of a tile

template <class T, class S>
struct Copy {
  T* target;
  const S* source;
  int64_t source_step;  // in the innermost loop: 0 is read once and repeated

  template <int N>
  __device__ __forceinline__ Vector<S, N> read_at(const int64_t (&at)[2]) const {
    if (N == 1 || source_step != 0) return load<N>(source + at[1]);
    Vector<S, N> same;
    const S value = source[at[1]];
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k) same[k] = value;
    return same;
  }
  template <int N>
  __device__ __forceinline__ void write_at(const int64_t (&at)[2], const Vector<S, N>& in) const {
    Vector<T, N> out;
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k) out[k] = convert<T>(in[k]);
    store(target + at[0], out);
  }
  template <int N>
  __device__ __forceinline__ Vector<S, N> read(int64_t i) const {
    return read_at<N>({i, i * source_step});
  }
  template <int N>
  __device__ __forceinline__ void write(int64_t i, const Vector<S, N>& in) const {
    write_at<N>({i, 0}, in);
  }
};

/// Matrices (rows, cols) that the target has along columns and the source along rows.
struct TransposeLoop {
  int64_t rows, cols;
  int64_t target_row, source_col;  // strides; target_col and source_row are 1
  Divisor row_tiles, col_tiles;
  Loops<2> outer;
};

template <class T>
__global__ void __launch_bounds__(kTile* kTileRows)
    copy_transpose_tile_kernel(const TransposeLoop loop, T* target, const T* source) {
  HEDDLE_SHARED(T, tile, [kTile][kTile + 1]);
  int64_t matrix = blockIdx.x;
  const int64_t first_col = loop.col_tiles.split(matrix) * kTile;
  const int64_t first_row = loop.row_tiles.split(matrix) * kTile;
  int64_t offsets[2] = {};
  loop.outer.add_offsets(matrix, offsets);
  const int x = static_cast<int>(threadIdx.x);
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += kTileRows) {
    const int64_t row = first_row + x;
    const int64_t col = first_col + y;
    if (row < loop.rows && col < loop.cols)
      tile[y][x] = source[offsets[1] + row + col * loop.source_col];
  }
  __syncthreads();
  for (int y = static_cast<int>(threadIdx.y); y < kTile; y += kTileRows) {
    const int64_t row = first_row + y;
    const int64_t col = first_col + x;
    if (row < loop.rows && col < loop.cols)
      target[offsets[0] + row * loop.target_row + col] = tile[x][y];
  }
}

/// The loop along which the source is contiguous while the target is along its columns: -1 where
/// they do not differ so.
int transposed_loop(const cpu::LoopNest<2>& nest) {
  if (nest.col_stride(0) != 1 || nest.col_stride(1) == 1 || nest.col_stride(1) == 0) return -1;
  for (int i = nest.sizes.size() - 2; i >= 0; --i)
    if (nest.stride(1, i) == 1 && nest.sizes[i] > 1) return i;
  return -1;
}

template <class T>
void launch_transpose(const cpu::LoopNest<2>& nest, int row_loop, T* target, const T* source,
                      StreamRef stream) {
  TransposeLoop loop{nest.sizes[row_loop],       nest.cols(), nest.stride(0, row_loop),
                     nest.col_stride(1),         {},          {},
                     loops_of(nest, 1, row_loop)};
  const int64_t row_tiles = (loop.rows + kTile - 1) / kTile;
  const int64_t col_tiles = (loop.cols + kTile - 1) / kTile;
  loop.row_tiles = Divisor(row_tiles);
  loop.col_tiles = Divisor(col_tiles);
  const unsigned blocks = grid_for(nest.n_rows() / loop.rows * row_tiles * col_tiles, 1);
  launch("copy_transpose_tile_kernel", copy_transpose_tile_kernel<T>,
         {.grid = blocks, .block = {kTile, kTileRows}}, stream, loop, target, source);
}

template <class T, class S>
void launch_copy(const cpu::LoopNest<2>& nest, const CopyArgs& args, StreamRef stream) {
  constexpr int kWidth = kVectorBytes / std::max(sizeof(T), sizeof(S));
  const Copy<T, S> body{static_cast<T*>(args.target.data), static_cast<const S*>(args.source.data),
                        nest.col_stride(1)};
  const DenseOperand operands[] = {{body.target, sizeof(T)}, {body.source, sizeof(S)}};
  launch_nest<kWidth>("copy_kernel", nest, operands, body, stream);
}

template <class T>
void launch_copy_bits(const cpu::LoopNest<2>& nest, const CopyArgs& args, StreamRef stream) {
  const int row_loop = transposed_loop(nest);
  if (row_loop < 0 || nest.cols() == 0 || nest.n_rows() == 0)
    return launch_copy<T, T>(nest, args, stream);
  launch_transpose(nest, row_loop, static_cast<T*>(args.target.data),
                   static_cast<const T*>(args.source.data), stream);
}

void copy_same_dtype(const cpu::LoopNest<2>& nest, const CopyArgs& args, StreamRef stream) {
  switch (size_of(args.target.dtype)) {  // bits are moved, whatever they mean
    case 1:
      return launch_copy_bits<uint8_t>(nest, args, stream);
    case 2:
      return launch_copy_bits<uint16_t>(nest, args, stream);
    case 4:
      return launch_copy_bits<uint32_t>(nest, args, stream);
    default:
      return launch_copy_bits<uint64_t>(nest, args, stream);
  }
}

}  // namespace

void cuda::copy(const CopyArgs& args, StreamRef stream) {
  const auto nest =
      cpu::make_loop_nest<2>(args.target.shape, {args.target.strides, args.source.strides});
  if (args.target.dtype == args.source.dtype) return copy_same_dtype(nest, args, stream);
  dispatch_all(args.target.dtype, [&]<class T>() {
    dispatch_all(args.source.dtype, [&]<class S>() {
      if constexpr (!std::is_same_v<T, S>) launch_copy<T, S>(nest, args, stream);
    });
  });
}

}  // namespace heddle
