#include "heddle/kernels/host/images.h"

#include <algorithm>
#include <cstring>

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"

namespace heddle::cpu {
namespace {

constexpr int64_t kFewChannels = 8;

int64_t padded_h(const Conv2dGeometry& g) { return g.in_h + 2 * g.pad_h; }
int64_t padded_w(const Conv2dGeometry& g) { return g.in_w + 2 * g.pad_w; }

}  // namespace

bool wants_padded_images(const Conv2dGeometry& g) {
  return g.groups == 1 && g.in_channels <= kFewChannels && g.dilation_w == 1 && g.kernel_w > 1;
}

template <class T>
PaddedImages<T>::PaddedImages(const Conv2dGeometry& g, const T* x)
    : data_((g.batch * padded_h(g) * padded_w(g) * g.in_channels + kSlack) *
            static_cast<int64_t>(sizeof(T))),
      source_{data_.as<T>(), padded_h(g), padded_w(g), g.in_channels, g.stride_h, g.stride_w, {}} {
  for (int64_t kh = 0; kh < g.kernel_h; ++kh) source_.taps.push_back({kh * g.dilation_h, 0, kh});
  const int64_t row = g.in_w * g.in_channels;
  const int64_t margin = g.pad_w * g.in_channels;
  const int64_t padded_row = row + 2 * margin;
  parallel_for(g.batch, [&](int64_t n) {
    T* out = data_.as<T>() + n * source_.h * padded_row;
    const T* in = x + n * g.in_h * row;
    std::fill_n(out, g.pad_h * padded_row, T(0));
    for (int64_t h = 0; h < g.in_h; ++h) {
      T* const line = out + (h + g.pad_h) * padded_row;
      std::fill_n(line, margin, T(0));
      std::copy_n(in + h * row, row, line + margin);
      std::fill_n(line + margin + row, margin, T(0));
    }
    std::fill_n(out + (g.pad_h + g.in_h) * padded_row, g.pad_h * padded_row, T(0));
  });
}

template <class T>
TapSource<T> plain_source(const Conv2dGeometry& g, const T* x) {
  TapSource<T> source{x, g.in_h, g.in_w, g.in_channels, g.stride_h, g.stride_w, {}};
  for (int64_t kh = 0; kh < g.kernel_h; ++kh)
    for (int64_t kw = 0; kw < g.kernel_w; ++kw)
      source.taps.push_back(
          {kh * g.dilation_h - g.pad_h, kw * g.dilation_w - g.pad_w, kh * g.kernel_w + kw});
  return source;
}

template class PaddedImages<float>;
template class PaddedImages<double>;
template TapSource<float> plain_source<float>(const Conv2dGeometry&, const float*);
template TapSource<double> plain_source<double>(const Conv2dGeometry&, const double*);

}  // namespace heddle::cpu
