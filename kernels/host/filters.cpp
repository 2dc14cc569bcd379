#include "heddle/kernels/host/filters.h"

#include <algorithm>

#include "heddle/kernels/host/parallel_for.h"

namespace heddle::cpu {

template <class T>
void pack_filters(const PackedMatrix<T>& packed, const T* w, int64_t n_taps, int64_t length) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  parallel_for(packed.panels(), [&](int64_t panel) {
    const int64_t o = panel * kernels.nr;
    const int64_t cols = std::min(kernels.nr, packed.cols() - o);
    for (const DepthBlock& block : packed.blocks()) {
      T* out = packed.panel(block, panel);
      for (int64_t tap = block.first; tap < block.first + block.segments; ++tap) {
        kernels.pack_transposed(out, w + (o * n_taps + tap) * length + block.offset,
                                n_taps * length, cols, block.length);
        out += block.length * kernels.nr;
      }
    }
  });
}

template <class T>
void pack_turned_filters(const PackedMatrix<T>& packed, const T* w, const std::vector<Tap>& taps,
                         int64_t filter_size, int64_t in_channels) {
  const GemmKernels<T>& kernels = gemm_kernels<T>();
  parallel_for(packed.panels(), [&](int64_t panel) {
    const int64_t c = panel * kernels.nr;
    const int64_t cols = std::min(kernels.nr, packed.cols() - c);
    for (const DepthBlock& block : packed.blocks()) {
      T* out = packed.panel(block, panel);
      for (int64_t i = block.first; i < block.first + block.segments; ++i) {
        const int64_t tap = taps[static_cast<size_t>(i)].index;
        kernels.pack_rows(out, w + (block.offset * filter_size + tap) * in_channels + c,
                          filter_size * in_channels, cols, block.length);
        out += block.length * kernels.nr;
      }
    }
  });
}

template void pack_filters(const PackedMatrix<float>&, const float*, int64_t, int64_t);
template void pack_filters(const PackedMatrix<double>&, const double*, int64_t, int64_t);
template void pack_turned_filters(const PackedMatrix<float>&, const float*, const std::vector<Tap>&,
                                  int64_t, int64_t);
template void pack_turned_filters(const PackedMatrix<double>&, const double*,
                                  const std::vector<Tap>&, int64_t, int64_t);

}  // namespace heddle::cpu
