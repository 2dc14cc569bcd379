// The entries that g++ and clang++ call before each load and store of code compiled with
// -fsanitize=thread. Outside of kernels they do nothing; atomics are performed here.
//
// This replaces libtsan: a program that links it cannot use ThreadSanitizer itself.
#include <cstdint>
#include <cstring>

#include "checks.h"

// NOLINTBEGIN: the names and signatures are the compiler's.
#pragma GCC diagnostic ignored "-Wmissing-declarations"
#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"

using cudasim::Access;
using cudasim::hooked_access;

#define CALLER __builtin_return_address(0)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}

// g++ takes 8 as the alignment of all that is longer.
#define CUDASIM_HOOKS(size, alignment)                                                            \
  void __tsan_read##size(void* at) { hooked_access(at, size, Access::kRead, CALLER, alignment); } \
  void __tsan_write##size(void* at) {                                                             \
    hooked_access(at, size, Access::kWrite, CALLER, alignment);                                   \
  }                                                                                               \
  void __tsan_unaligned_read##size(void* at) {                                                    \
    hooked_access(at, size, Access::kRead, CALLER, 1);                                            \
  }                                                                                               \
  void __tsan_unaligned_write##size(void* at) {                                                   \
    hooked_access(at, size, Access::kWrite, CALLER, 1);                                           \
  }                                                                                               \
  void __tsan_volatile_read##size(void* at) {                                                     \
    hooked_access(at, size, Access::kRead, CALLER, alignment);                                    \
  }                                                                                               \
  void __tsan_volatile_write##size(void* at) {                                                    \
    hooked_access(at, size, Access::kWrite, CALLER, alignment);                                   \
  }                                                                                               \
  void __tsan_unaligned_volatile_read##size(void* at) {                                           \
    hooked_access(at, size, Access::kRead, CALLER, 1);                                            \
  }                                                                                               \
  void __tsan_unaligned_volatile_write##size(void* at) {                                          \
    hooked_access(at, size, Access::kWrite, CALLER, 1);                                           \
  }                                                                                               \
  void __tsan_read##size##_pc(void* at, void* pc) {                                               \
    hooked_access(at, size, Access::kRead, pc, alignment);                                        \
  }                                                                                               \
  void __tsan_write##size##_pc(void* at, void* pc) {                                              \
    hooked_access(at, size, Access::kWrite, pc, alignment);                                       \
  }
CUDASIM_HOOKS(1, 1)
CUDASIM_HOOKS(2, 2)
CUDASIM_HOOKS(4, 4)
CUDASIM_HOOKS(8, 8)
CUDASIM_HOOKS(16, 8)

void __tsan_read_range(void* at, unsigned long bytes) {
  if (bytes > 0) hooked_access(at, bytes, Access::kRead, CALLER, 1);
}
void __tsan_write_range(void* at, unsigned long bytes) {
  if (bytes > 0) hooked_access(at, bytes, Access::kWrite, CALLER, 1);
}
void __tsan_vptr_update(void** at, void*) { hooked_access(at, 8, Access::kWrite, CALLER, 8); }
void __tsan_vptr_read(void** at) { hooked_access(at, 8, Access::kRead, CALLER, 8); }

void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
  if (bytes > 0) {
    hooked_access(from, bytes, Access::kRead, CALLER, 1);
    hooked_access(to, bytes, Access::kWrite, CALLER, 1);
  }
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, unsigned long bytes) {
  if (bytes > 0) {
    hooked_access(from, bytes, Access::kRead, CALLER, 1);
    hooked_access(to, bytes, Access::kWrite, CALLER, 1);
  }
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, unsigned long bytes) {
  if (bytes > 0) hooked_access(to, bytes, Access::kWrite, CALLER, 1);
  return std::memset(to, value, bytes);
}

#define CUDASIM_RMW(bits, type, name, builtin)                              \
  type __tsan_atomic##bits##_##name(volatile type* at, type value, int) {   \
    hooked_access(at, sizeof(type), Access::kAtomic, CALLER, sizeof(type)); \
    return builtin(at, value, __ATOMIC_SEQ_CST);                            \
  }
#define CUDASIM_CAS(bits, type, strength, weak)                                            \
  int __tsan_atomic##bits##_compare_exchange_##strength(volatile type* at, type* expected, \
                                                        type desired, int, int) {          \
    hooked_access(at, sizeof(type), Access::kAtomic, CALLER, sizeof(type));                \
    return __atomic_compare_exchange_n(at, expected, desired, weak, __ATOMIC_SEQ_CST,      \
                                       __ATOMIC_SEQ_CST);                                  \
  }
#define CUDASIM_ATOMICS(bits, type)                                         \
  type __tsan_atomic##bits##_load(const volatile type* at, int) {           \
    hooked_access(at, sizeof(type), Access::kAtomic, CALLER, sizeof(type)); \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                           \
  }                                                                         \
  void __tsan_atomic##bits##_store(volatile type* at, type value, int) {    \
    hooked_access(at, sizeof(type), Access::kAtomic, CALLER, sizeof(type)); \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                          \
  }                                                                         \
  CUDASIM_RMW(bits, type, exchange, __atomic_exchange_n)                    \
  CUDASIM_RMW(bits, type, fetch_add, __atomic_fetch_add)                    \
  CUDASIM_RMW(bits, type, fetch_sub, __atomic_fetch_sub)                    \
  CUDASIM_RMW(bits, type, fetch_and, __atomic_fetch_and)                    \
  CUDASIM_RMW(bits, type, fetch_or, __atomic_fetch_or)                      \
  CUDASIM_RMW(bits, type, fetch_xor, __atomic_fetch_xor)                    \
  CUDASIM_RMW(bits, type, fetch_nand, __atomic_fetch_nand)                  \
  CUDASIM_CAS(bits, type, strong, false)                                    \
  CUDASIM_CAS(bits, type, weak, true)
CUDASIM_ATOMICS(8, uint8_t)
CUDASIM_ATOMICS(16, uint16_t)
CUDASIM_ATOMICS(32, uint32_t)
CUDASIM_ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

}  // extern "C"
// NOLINTEND
