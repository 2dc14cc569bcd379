#pragma once

#include "cudasim/qualifiers.h"
#include "cudasim/types.h"

namespace cudasim {

// The same for all of a thread's life, so the compiler may ask once; not inlined, so that the
// engine's state is read outside the instrumented kernel.
[[gnu::const]] uint3 thread_index() noexcept;
[[gnu::const]] uint3 block_index() noexcept;
[[gnu::const]] uint3 block_size() noexcept;
[[gnu::const]] uint3 grid_size() noexcept;

/// One coordinate of a built-in variable: an unsigned integer in all but name.
template <uint3 (*kGet)() noexcept, unsigned uint3::*kMember>
struct Coordinate {
  __forceinline__ operator unsigned() const { return kGet().*kMember; }
};

template <uint3 (*kGet)() noexcept>
struct Coordinates {
  Coordinate<kGet, &uint3::x> x;
  Coordinate<kGet, &uint3::y> y;
  Coordinate<kGet, &uint3::z> z;

  __forceinline__ operator uint3() const { return kGet(); }
  __forceinline__ operator dim3() const { return kGet(); }
};

}  // namespace cudasim

inline constexpr cudasim::Coordinates<cudasim::thread_index> threadIdx{};
inline constexpr cudasim::Coordinates<cudasim::block_index> blockIdx{};
inline constexpr cudasim::Coordinates<cudasim::block_size> blockDim{};
inline constexpr cudasim::Coordinates<cudasim::grid_size> gridDim{};
inline constexpr int warpSize = 32;

/// Wait for every thread of the block.
void __syncthreads();
int __syncthreads_count(int predicate);
int __syncthreads_and(int predicate);
int __syncthreads_or(int predicate);

/// Order memory only: nothing to do in one process, kept apart from the compiler.
void __threadfence();
void __threadfence_block();
void __threadfence_system();

/// Lets other threads of the block run: what a loop that waits for them needs.
void __nanosleep(unsigned int nanoseconds);

/// Ends the launch with cudaErrorLaunchFailure.
[[noreturn]] void __trap();

long long clock64();
unsigned long long __globaltimer();
