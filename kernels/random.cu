// y[i] = shift + scale * draw i (n). Draws are a function of the stream and i alone (Philox, by the
// functions of core/rng.h and core/normal.h), and the build contracts no product and sum: the same
// bits as on the CPU. Each thread draws whole Philox blocks, and stores 16 bytes at a time where y
// is aligned.
#include "heddle/kernels/random.h"

#include "heddle/kernels/device/convert.cuh"
#include "heddle/kernels/device/dispatch.cuh"
#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/math.cuh"
#include "heddle/kernels/device/philox.cuh"

namespace heddle {
namespace {

constexpr int kThreads = 256;

struct Uniform {
  static constexpr int kWords = 1;  // of a draw
  __device__ __forceinline__ static float draw(const uint32_t* words) {
    return uniform_from_bits(words[0]);
  }
};

struct Normal {
  static constexpr int kWords = 2;
  __device__ __forceinline__ static float draw(const uint32_t* words) {
    return normal_from_bits(words[0], words[1]);
  }
};

/// N elements a thread: a multiple of the draws in a Philox block.
template <class D, class T, int N>
__global__ void __launch_bounds__(kThreads)
    random_vector_kernel(T* y, int64_t n, const Rng rng, float shift, float scale, bool aligned) {
  constexpr int kPerBlock = kWordsPerBlock / D::kWords;
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (first >= n) return;
  Vector<T, N> out;
  HEDDLE_UNROLL
  for (int k = 0; k < N; k += kPerBlock) {
    uint32_t words[kWordsPerBlock];
    draw_words(rng, (first + k) / kPerBlock, words);
    HEDDLE_UNROLL
    for (int i = 0; i < kPerBlock; ++i)
      out[k + i] = from_float<T>(shift + scale * D::draw(words + i * D::kWords));
  }
  if (aligned && first + N <= n) return store(y + first, out);
  for (int k = 0; k < N && first + k < n; ++k) y[first + k] = out[k];
}

template <class D, class T>
void launch_random(const RandomArgs& args, StreamRef stream) {
  constexpr int kWidth = kVectorBytes / sizeof(T);
  const int64_t n = args.y.numel();
  if (n == 0) return;
  T* y = args.y.as<T>();
  launch("random_vector_kernel", random_vector_kernel<D, T, kWidth>,
         {.grid = grid_for(n, kThreads * kWidth), .block = kThreads}, stream, y, n, args.rng,
         static_cast<float>(args.shift), static_cast<float>(args.scale), is_aligned<kWidth>(y));
}

}  // namespace

void cuda::random(const RandomArgs& args, StreamRef stream) {
  dispatch_device_float("random", args.y.dtype, [&]<class T>() {
    if (args.distribution == Distribution::kUniform) return launch_random<Uniform, T>(args, stream);
    launch_random<Normal, T>(args, stream);
  });
}

}  // namespace heddle
