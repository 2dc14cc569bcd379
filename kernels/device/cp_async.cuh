#pragma once

// Copies from global to shared memory that run beside the warp, PTX ISA "cp.async" (sm_80). A
// thread's copies since its last commit are a group; waiting until at most n groups are pending
// makes the older ones visible to that thread, and a block barrier after it to all.

#include <cuda_runtime.h>

#include "heddle/core/dtype.h"

namespace heddle {

#ifdef __CUDASIM__

HEDDLE_INLINE void cp_async_16(void* shared, const void* global, bool valid) {
  cudasim::async_copy(shared, global, 16, valid ? 16 : 0);
}

HEDDLE_INLINE void cp_async_commit() { cudasim::async_commit(); }

template <int kPending>
HEDDLE_INLINE void cp_async_wait() {
  cudasim::async_wait(kPending);
}

#else

/// Copies 16 bytes, or writes 16 zero bytes and reads nothing where not `valid`. Both addresses
/// are 16-byte aligned. Past the first-level cache (.cg): a tile is read once by a block.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, bool valid) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int source_bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(global), "r"(source_bytes)
               : "memory");
}

__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

#endif

}  // namespace heddle
