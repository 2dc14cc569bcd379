#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace heddle {

/// While it lives, this thread's float unit takes subnormal numbers for zero: they cost a factor of
/// two in long trainings, and no result of weight depends on them. Puts the previous mode back.
class FlushDenormals {
 public:
#if defined(__SSE__)
  FlushDenormals() : previous_(_mm_getcsr()) { _mm_setcsr(previous_ | 0x8040U); }  // FTZ | DAZ
  ~FlushDenormals() { _mm_setcsr(previous_); }
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(previous_));
    asm volatile("msr fpcr, %0" ::"r"(previous_ | (uint64_t{1} << 24)));
  }
  ~FlushDenormals() { asm volatile("msr fpcr, %0" ::"r"(previous_)); }
#else
  FlushDenormals() = default;
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE__)
  uint32_t previous_;
#elif defined(__aarch64__)
  uint64_t previous_ = 0;
#endif
};

}  // namespace heddle
