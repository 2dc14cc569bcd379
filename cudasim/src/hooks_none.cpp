// The entries that -fsanitize=thread makes device code call, doing nothing.
extern "C" {
#define CUDASIM_HOOK(name, ...) \
  void name(__VA_ARGS__);       \
  void name(__VA_ARGS__) {}
CUDASIM_HOOK(__tsan_init)
CUDASIM_HOOK(__tsan_func_entry, void*)
CUDASIM_HOOK(__tsan_func_exit)
#define CUDASIM_HOOK_SIZE(size)                             \
  CUDASIM_HOOK(__tsan_read##size, void*)                    \
  CUDASIM_HOOK(__tsan_write##size, void*)                   \
  CUDASIM_HOOK(__tsan_unaligned_read##size, void*)          \
  CUDASIM_HOOK(__tsan_unaligned_write##size, void*)         \
  CUDASIM_HOOK(__tsan_volatile_read##size, void*)           \
  CUDASIM_HOOK(__tsan_volatile_write##size, void*)          \
  CUDASIM_HOOK(__tsan_unaligned_volatile_read##size, void*) \
  CUDASIM_HOOK(__tsan_unaligned_volatile_write##size, void*)
CUDASIM_HOOK_SIZE(1)
CUDASIM_HOOK_SIZE(2)
CUDASIM_HOOK_SIZE(4)
CUDASIM_HOOK_SIZE(8)
CUDASIM_HOOK_SIZE(16)
CUDASIM_HOOK(__tsan_read_range, void*, unsigned long)
CUDASIM_HOOK(__tsan_write_range, void*, unsigned long)
CUDASIM_HOOK(__tsan_vptr_update, void**, void*)
CUDASIM_HOOK(__tsan_vptr_read, void**)

#define CUDASIM_HOOK_ATOMIC(bits, type)                                 \
  type __tsan_atomic##bits##_load(const volatile type* a, int);         \
  type __tsan_atomic##bits##_load(const volatile type* a, int) {        \
    return __atomic_load_n(a, __ATOMIC_SEQ_CST);                        \
  }                                                                     \
  void __tsan_atomic##bits##_store(volatile type* a, type v, int);      \
  void __tsan_atomic##bits##_store(volatile type* a, type v, int) {     \
    __atomic_store_n(a, v, __ATOMIC_SEQ_CST);                           \
  }                                                                     \
  type __tsan_atomic##bits##_fetch_add(volatile type* a, type v, int);  \
  type __tsan_atomic##bits##_fetch_add(volatile type* a, type v, int) { \
    return __atomic_fetch_add(a, v, __ATOMIC_SEQ_CST);                  \
  }
CUDASIM_HOOK_ATOMIC(8, unsigned char)
CUDASIM_HOOK_ATOMIC(32, unsigned)
CUDASIM_HOOK_ATOMIC(64, unsigned long)
}
