#pragma once

/// Fetching of memory that will be used soon.
namespace heddle::cpu {

/// The cache line at p, which need not be readable, into the first-level cache. The empty statement
/// is an effect for the compiler's eyes: GCC leaves out calls of a function that does nothing but
/// __builtin_prefetch.
inline void fetch_line(const void* p) {
  __builtin_prefetch(p);
  asm volatile("");
}
/// The same into the second-level cache.
inline void fetch_line_early(const void* p) {
  __builtin_prefetch(p, 0, 2);
  asm volatile("");
}
/// Into the first-level cache, to be written.
inline void fetch_line_to_write(const void* p) {
  __builtin_prefetch(p, 1);
  asm volatile("");
}

}  // namespace heddle::cpu
