// What the processor can do at most, measured: a roof to hold kernels against.
#include <algorithm>
#include <chrono>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "heddle/apps/support/bench.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/scratch.h"

namespace heddle::bench {
namespace {

constexpr int kChains = 12;              // independent sums: hides latency 4 at two units, and more
constexpr int64_t kMultiplyAdds = 4096;  // a chain, in one piece of work
constexpr int64_t kTriadFloats = int64_t{1} << 25;  // 128 MiB an array
constexpr int kRuns = 7;

/// Returns the lanes of a vector; the sum goes to `sink` so that the work is not left out.
using FlopLoop = int (*)(float* sink);

#if defined(__x86_64__)
[[gnu::target("avx512f")]] int loop_avx512(float* sink) {
  const __m512 a = _mm512_set1_ps(0.999F), b = _mm512_set1_ps(1e-3F);
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = b;
  for (int64_t n = 0; n < kMultiplyAdds; ++n) {
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], a, b);
  }
  for (int i = 0; i < kChains; ++i) *sink += _mm512_cvtss_f32(sums[i]);
  return 16;
}

[[gnu::target("avx2,fma")]] int loop_avx2(float* sink) {
  const __m256 a = _mm256_set1_ps(0.999F), b = _mm256_set1_ps(1e-3F);
  __m256 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = b;
  for (int64_t n = 0; n < kMultiplyAdds; ++n) {
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], a, b);
  }
  for (int i = 0; i < kChains; ++i) *sink += _mm256_cvtss_f32(sums[i]);
  return 8;
}

[[gnu::target("avx512f,avx512bf16")]] int loop_bfloat16(float* sink) {
  const __m512bh a = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f70));  // two of 0.9375
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_setzero_ps();
  for (int64_t n = 0; n < kMultiplyAdds; ++n) {
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], a, a);
  }
  for (int i = 0; i < kChains; ++i) *sink += _mm512_cvtss_f32(sums[i]);
  return 32;
}

#endif

int loop_baseline(float* sink) {
  using Vector = float __attribute__((vector_size(16)));
  const Vector a = {0.999F, 0.999F, 0.999F, 0.999F}, b = {1e-3F, 1e-3F, 1e-3F, 1e-3F};
  Vector sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = b;
  for (int64_t n = 0; n < kMultiplyAdds; ++n) {
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * a + b;
  }
  for (int i = 0; i < kChains; ++i) *sink += sums[i][0];
  return 4;
}

FlopLoop float32_loop() {
#if defined(__x86_64__)
  if (cpu::active_isa() == cpu::Isa::kAvx512) return loop_avx512;
  if (cpu::active_isa() == cpu::Isa::kAvx2) return loop_avx2;
#endif
  return loop_baseline;
}

template <class Work>
double best_seconds(const Work& work) {
  double best = 1e300;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, elapsed.count());
  }
  return best;
}

double flops_per_second(FlopLoop loop) {
  const int64_t n_pieces = 64 * num_threads();
  std::vector<float> sinks(static_cast<size_t>(n_pieces) * 16);
  const int lanes = loop(sinks.data());
  const double seconds = best_seconds(
      [&] { parallel_for(n_pieces, [&](int64_t piece) { loop(&sinks[piece * 16]); }); });
  return 2.0 * static_cast<double>(lanes * kChains * kMultiplyAdds * n_pieces) / seconds;
}

double triad_bytes_per_second() {
  constexpr int64_t kBytes = kTriadFloats * static_cast<int64_t>(sizeof(float));
  const cpu::Scratch a_space(kBytes), b_space(kBytes), c_space(kBytes);
  float* const a = a_space.as<float>();
  float* const b = b_space.as<float>();
  float* const c = c_space.as<float>();
  std::fill_n(a, kTriadFloats, 0.0F);
  std::fill_n(b, kTriadFloats, 1.0F);
  std::fill_n(c, kTriadFloats, 2.0F);
  const double seconds = best_seconds([&] {
    parallel_ranges(kTriadFloats, kTriadFloats / 256, [&](int64_t begin, int64_t end) {
      cpu::vectorized(
          [](float* to, const float* x, const float* y, int64_t n) HEDDLE_VECTOR_LOOP {
            for (int64_t i = 0; i < n; ++i) to[i] = x[i] + 3.0F * y[i];
          },
          a + begin, b + begin, c + begin, end - begin);
    });
  });
  return 3.0 * static_cast<double>(kBytes) / seconds;
}

}  // namespace

Peaks measure_peaks() {
  Peaks peaks;
  peaks.float32 = flops_per_second(float32_loop());
#if defined(__x86_64__)
  if (cpu::has_bfloat16_units()) peaks.bfloat16 = flops_per_second(loop_bfloat16);
#endif
  peaks.bandwidth = triad_bytes_per_second();
  memory::release_cached(Device::cpu());  // the arrays are far larger than what is measured next
  return peaks;
}

}  // namespace heddle::bench
