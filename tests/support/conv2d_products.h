#pragma once

#include "heddle/kernels/conv2d.h"

namespace heddle::testing {

/// Calls f(y, x, w) with the offsets of each product of the convolution, y += x w, in dense
/// channels-last memory: what the float64 oracles of forward and gradients sum.
template <class F>
void each_conv2d_product(const Conv2dGeometry& g, const F& f) {
  const int64_t in = g.in_channels / g.groups;
  const int64_t out = g.out_channels / g.groups;
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t p = 0; p < g.out_h; ++p)
      for (int64_t q = 0; q < g.out_w; ++q)
        for (int64_t i = 0; i < g.kernel_h; ++i)
          for (int64_t j = 0; j < g.kernel_w; ++j) {
            const int64_t h = p * g.stride_h - g.pad_h + i * g.dilation_h;
            const int64_t w = q * g.stride_w - g.pad_w + j * g.dilation_w;
            if (h < 0 || h >= g.in_h || w < 0 || w >= g.in_w) continue;
            for (int64_t o = 0; o < g.out_channels; ++o)
              for (int64_t c = 0; c < in; ++c)
                f(((n * g.out_h + p) * g.out_w + q) * g.out_channels + o,
                  ((n * g.in_h + h) * g.in_w + w) * g.in_channels + o / out * in + c,
                  ((o * g.kernel_h + i) * g.kernel_w + j) * in + c);
          }
}

}  // namespace heddle::testing
