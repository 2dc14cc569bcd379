#pragma once

#include <cstdint>
#include <vector>

#include "heddle/kernels/host/gemm.h"
#include "heddle/kernels/host/images.h"

/// A convolution's weights (O, kH, kW, C), packed as the second factor of its matrix products.
namespace heddle::cpu {

/// Weights of one group for y = x w^T: (taps * length, out channels).
template <class T>
void pack_filters(const PackedMatrix<T>& packed, const T* w, int64_t n_taps, int64_t length);

/// Weights of one group and some taps for dx = dy w: (taps * out channels, in channels).
template <class T>
void pack_turned_filters(const PackedMatrix<T>& packed, const T* w, const std::vector<Tap>& taps,
                         int64_t filter_size, int64_t in_channels);

}  // namespace heddle::cpu
