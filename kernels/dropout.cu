// Dropout (Srivastava et al. 2014), inverted: kept elements are scaled. The mask is a function of
// the random stream and the element's logical place (image, plane, pixel) alone, so it has the
// CPU's bits whatever the storage order. Memory-bound: x is read, y and a mask byte are written
// once, 16 bytes of y a thread and access where planes or elements allow. Each Philox block gives
// four neighbours in logical order, that is four pixels of a plane: a thread takes four pixels of a
// few planes, so that no draw is thrown away. Deterministic.
#include "heddle/kernels/dropout.h"

#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/elementwise.cuh"
#include "heddle/kernels/device/math.cuh"
#include "heddle/kernels/device/philox.cuh"

namespace heddle {
namespace {

constexpr int kThreads = 256;

template <class T>
struct Arrays {
  T* y;
  uint8_t* mask;  // may be null
  const T* x;
};

struct Draws {
  Rng rng;
  float probability;
  float scale;
  int64_t first;         // draw of the first element
  const int64_t* steps;  // may be null

  __device__ __forceinline__ Draws of_this_step() const {
    Draws draws = *this;
    if (steps != nullptr) draws.rng = rng.after(*steps);
    return draws;
  }

  bool starts_block() const { return first % kWordsPerBlock == 0; }
  /// Whether each element of block `block` of four is kept, counted from a first that starts one.
  __device__ __forceinline__ void keep(int64_t block, bool (&kept)[kWordsPerBlock]) const {
    uint32_t words[kWordsPerBlock];
    draw_words(rng, first / kWordsPerBlock + block, words);
    HEDDLE_UNROLL
    for (int i = 0; i < kWordsPerBlock; ++i) kept[i] = !(uniform_from_bits(words[i]) < probability);
  }
};

template <int N, class T>
__device__ __forceinline__ void drop(const Arrays<T>& arrays, int64_t at, const bool (&kept)[N],
                                     const Vector<T, N>& x, float scale) {
  Vector<T, N> y;
  Vector<uint8_t, N> mask;
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) {
    y[k] = from_float<T>(kept[k] ? to_float(x[k]) * scale : 0.0F);
    mask[k] = kept[k] ? 1 : 0;
  }
  store(arrays.y + at, y);
  if (arrays.mask != nullptr) store(arrays.mask + at, mask);
}

/// Storage order is logical order: a thread takes N = 4 or 8 neighbours, one or two Philox blocks.
template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    dropout_forward_dense_kernel(const Arrays<T> arrays, int64_t n, bool aligned,
                                 const Draws given) {
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (first >= n) return;
  const Draws draws = given.of_this_step();
  bool kept[N];
  HEDDLE_UNROLL
  for (int k = 0; k < N; k += kWordsPerBlock) {
    bool of_block[kWordsPerBlock];
    draws.keep((first + k) / kWordsPerBlock, of_block);
    HEDDLE_UNROLL
    for (int i = 0; i < kWordsPerBlock; ++i) kept[k + i] = of_block[i];
  }
  if (aligned && first + N <= n)
    return drop<N>(arrays, first, kept, load<N>(arrays.x + first), draws.scale);
  for (int k = 0; k < N && first + k < n; ++k) {
    const bool one[1] = {kept[k]};
    drop<1>(arrays, first + k, one, load<1>(arrays.x + first + k), draws.scale);
  }
}

/// Channels-last images whose planes are whole Philox blocks (pixels % 4 == 0): a thread takes four
/// pixels of N planes.
template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    dropout_forward_planes_kernel(const Arrays<T> arrays, int64_t n_threads, Divisor plane_groups,
                                  Divisor pixel_groups, int64_t planes, int64_t pixels,
                                  const Draws given) {
  int64_t image = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (image >= n_threads) return;
  const Draws draws = given.of_this_step();
  const int64_t plane = plane_groups.split(image) * N;
  const int64_t pixel = pixel_groups.split(image) * kWordsPerBlock;
  const int64_t at = (image * pixels + pixel) * planes + plane;
  Vector<T, N> x[kWordsPerBlock];
  HEDDLE_UNROLL
  for (int i = 0; i < kWordsPerBlock; ++i) x[i] = load<N>(arrays.x + at + i * planes);
  bool kept[kWordsPerBlock][N];
  HEDDLE_UNROLL
  for (int k = 0; k < N; ++k) {
    bool of_plane[kWordsPerBlock];
    draws.keep(((image * planes + plane + k) * pixels + pixel) / kWordsPerBlock, of_plane);
    HEDDLE_UNROLL
    for (int i = 0; i < kWordsPerBlock; ++i) kept[i][k] = of_plane[i];
  }
  HEDDLE_UNROLL
  for (int i = 0; i < kWordsPerBlock; ++i)
    drop<N>(arrays, at + i * planes, kept[i], x[i], draws.scale);
}

/// Any images: a thread takes one element and one word of its Philox block.
template <class T>
__global__ void __launch_bounds__(kThreads)
    dropout_forward_element_kernel(const Arrays<T> arrays, int64_t n, Divisor planes,
                                   Divisor pixels, const Draws given) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= n) return;
  const Draws draws = given.of_this_step();
  int64_t image = at;
  const int64_t plane = planes.split(image);
  const int64_t pixel = pixels.split(image);
  const int64_t logical = (image * planes.value() + plane) * pixels.value() + pixel;
  const int64_t draw = draws.first % kWordsPerBlock + logical;
  bool kept[kWordsPerBlock];
  draws.keep(draw / kWordsPerBlock, kept);
  const int word = static_cast<int>(draw % kWordsPerBlock);
  const bool one[1] = {(kept[0] && word == 0) || (kept[1] && word == 1) || (kept[2] && word == 2) ||
                       (kept[3] && word == 3)};
  drop<1>(arrays, at, one, load<1>(arrays.x + at), draws.scale);
}

template <class T>
struct Backward {
  T* dx;
  const T* dy;
  const uint8_t* mask;
  float scale;

  template <int N>
  struct Inputs {
    Vector<T, N> dy;
    Vector<uint8_t, N> mask;
  };
  template <int N>
  __device__ __forceinline__ Inputs<N> read(int64_t i) const {
    return {load<N>(dy + i), load<N>(mask + i)};
  }
  template <int N>
  __device__ __forceinline__ void write(int64_t i, const Inputs<N>& in) const {
    Vector<T, N> out;
    HEDDLE_UNROLL
    for (int k = 0; k < N; ++k)
      out[k] = from_float<T>(in.mask[k] != 0 ? to_float(in.dy[k]) * scale : 0.0F);
    store(dx + i, out);
  }
};

template <class T>
void launch_images(const DropoutForwardArgs& args, const Arrays<T>& arrays, const Draws& draws,
                   StreamRef stream) {
  constexpr int kWidth = 4;  // planes of a thread: 16 Philox results held, 8 or 16 bytes an access
  const int64_t n = args.images * args.planes * args.pixels;
  const bool aligned = is_aligned<kWidth>(arrays.x) && is_aligned<kWidth>(arrays.y) &&
                       is_aligned<kWidth>(arrays.mask);
  if (args.planes % kWidth != 0 || args.pixels % kWordsPerBlock != 0 || !aligned ||
      !draws.starts_block())
    return launch("dropout_forward_element_kernel", dropout_forward_element_kernel<T>,
                  {.grid = grid_for(n, kThreads), .block = kThreads}, stream, arrays, n,
                  Divisor(args.planes), Divisor(args.pixels), draws);
  const int64_t n_threads = n / (kWidth * kWordsPerBlock);
  launch("dropout_forward_planes_kernel", dropout_forward_planes_kernel<kWidth, T>,
         {.grid = grid_for(n_threads, kThreads), .block = kThreads}, stream, arrays, n_threads,
         Divisor(args.planes / kWidth), Divisor(args.pixels / kWordsPerBlock), args.planes,
         args.pixels, draws);
}

template <class T>
void launch_forward(const DropoutForwardArgs& args, StreamRef stream) {
  const int64_t n = args.images * args.planes * args.pixels;
  if (n == 0) return;
  const Arrays<T> arrays{static_cast<T*>(args.y), args.mask, static_cast<const T*>(args.x)};
  const Draws draws{args.rng, args.probability, static_cast<float>(args.scale), args.first,
                    args.steps};
  if ((args.planes > 1 && args.pixels > 1) || !draws.starts_block())
    return launch_images(args, arrays, draws, stream);
  constexpr int kWidth = kVectorBytes / sizeof(T);
  const bool aligned = is_aligned<kWidth>(arrays.x) && is_aligned<kWidth>(arrays.y) &&
                       is_aligned<kWidth>(arrays.mask);
  launch("dropout_forward_dense_kernel", dropout_forward_dense_kernel<kWidth, T>,
         {.grid = grid_for(n, kThreads * kWidth), .block = kThreads}, stream, arrays, n, aligned,
         draws);
}

template <class T>
void launch_backward(const DropoutBackwardArgs& args, StreamRef stream) {
  constexpr int kWidth = kVectorBytes / sizeof(T);
  const Backward<T> body{static_cast<T*>(args.dx), static_cast<const T*>(args.dy), args.mask,
                         static_cast<float>(args.scale)};
  const DenseOperand operands[] = {{body.dx, sizeof(T)}, {body.dy, sizeof(T)}, {body.mask, 1}};
  launch_elementwise<kWidth>("dropout_backward_elementwise_kernel", args.n, operands, body, stream);
}

}  // namespace

void cuda::dropout_forward(const DropoutForwardArgs& args, StreamRef stream) {
  dispatch_device_float("dropout_forward", args.dtype,
                        [&]<class T>() { launch_forward<T>(args, stream); });
}

void cuda::dropout_backward(const DropoutBackwardArgs& args, StreamRef stream) {
  dispatch_device_float("dropout_backward", args.dtype,
                        [&]<class T>() { launch_backward<T>(args, stream); });
}

}  // namespace heddle
