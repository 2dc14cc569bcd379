#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/dtype.h"

namespace heddle::cpu {

/// Instruction sets that loops are compiled for. kAvx2 includes FMA and F16C; kAvx512 means F, BW,
/// DQ and VL. On other processors than x86 there is only kBaseline.
enum class Isa { kBaseline, kAvx2, kAvx512 };

/// The best one that this processor has, or what HEDDLE_ISA (baseline, avx2, avx512) asks for.
/// Errors: HEDDLE_ISA names an unknown set, or one that the processor lacks.
Isa active_isa();
/// For tests: what active_isa returns from now on. Errors: the processor lacks it.
void set_active_isa(Isa isa);
bool processor_has(Isa isa);
std::vector<Isa> available_isas();
/// Whether bfloat16 may be multiplied by pairs: AVX512_BF16, with active_isa() kAvx512.
bool has_bfloat16_units();
std::string_view name_of(Isa isa);
Isa parse_isa(std::string_view text);

#if defined(__x86_64__)
#define HEDDLE_TARGET_AVX2 [[gnu::target("avx2,fma,f16c")]]
#define HEDDLE_TARGET_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]]

namespace detail {
template <class Loop, class... Args>
HEDDLE_TARGET_AVX2 void run_avx2(const Loop& loop, Args... args) {
  loop(args...);
}
template <class Loop, class... Args>
HEDDLE_TARGET_AVX512 void run_avx512(const Loop& loop, Args... args) {
  loop(args...);
}
}  // namespace detail
#endif

/// Runs `loop(args...)` compiled for the active instruction set: the compiler vectorises a plain
/// loop three times. The loop must be a lambda marked HEDDLE_VECTOR_LOOP that captures nothing by
/// reference that it reads in its inner loop (pass it as an argument), and everything that it calls
/// must be HEDDLE_INLINE: a function that is not inlined stays at the baseline, which is slow but
/// right. Example:
///
///   vectorized([](const float* x, float* y, int64_t n) HEDDLE_VECTOR_LOOP {
///     for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
///   }, x, y, n);
template <class Loop, class... Args>
void vectorized(const Loop& loop, Args... args) {
#if defined(__x86_64__)
  switch (active_isa()) {
    case Isa::kAvx512:
      return detail::run_avx512(loop, args...);
    case Isa::kAvx2:
      return detail::run_avx2(loop, args...);
    case Isa::kBaseline:
      break;
  }
#endif
  loop(args...);
}

#define HEDDLE_VECTOR_LOOP __attribute__((always_inline))

}  // namespace heddle::cpu
