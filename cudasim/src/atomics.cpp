#include "cudasim/atomics.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cudasim/block.h"
#include "observer.h"

namespace {

void report(const void* address, size_t bytes, const void* pc) {
  if (cudasim::current_lane == nullptr) return;
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) {
    cudasim::end_launch("an atomic's address is misaligned");
  }
  cudasim::observer::on_access(*cudasim::current_lane, address, bytes, cudasim::Access::kAtomic,
                               pc);
}

template <size_t kBytes>
struct WordOf;
template <>
struct WordOf<4> {
  using Type = uint32_t;
};
template <>
struct WordOf<8> {
  using Type = uint64_t;
};

/// Replaces *address by change(*address) in one piece and returns the old value.
template <class T, class Change>
T exchange_by(T* address, const void* pc, Change change) {
  using Word = typename WordOf<sizeof(T)>::Type;
  report(address, sizeof(T), pc);
  Word* word = reinterpret_cast<Word*>(address);
  Word old = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    const Word next = std::bit_cast<Word>(static_cast<T>(change(std::bit_cast<T>(old))));
    if (__atomic_compare_exchange_n(word, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return std::bit_cast<T>(old);
    }
  }
}

}  // namespace

#define CUDASIM_ATOMIC(name, type, expression)                            \
  type name(type* address, type value) {                                  \
    return exchange_by(address, __builtin_return_address(0),              \
                       [value](type old) -> type { return expression; }); \
  }

CUDASIM_ATOMIC(atomicAdd, unsigned, old + value)
CUDASIM_ATOMIC(atomicAdd, unsigned long long, old + value)
CUDASIM_ATOMIC(atomicAdd, float, old + value)
CUDASIM_ATOMIC(atomicAdd, double, old + value)
CUDASIM_ATOMIC(atomicAdd, int,
               static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value)))
CUDASIM_ATOMIC(atomicSub, unsigned, old - value)
CUDASIM_ATOMIC(atomicSub, int,
               static_cast<int>(static_cast<unsigned>(old) - static_cast<unsigned>(value)))

#define CUDASIM_ATOMIC_EXCH(type)                                                              \
  type atomicExch(type* address, type value) {                                                 \
    return exchange_by(address, __builtin_return_address(0), [value](type) { return value; }); \
  }
CUDASIM_ATOMIC_EXCH(int)
CUDASIM_ATOMIC_EXCH(unsigned)
CUDASIM_ATOMIC_EXCH(unsigned long long)
CUDASIM_ATOMIC_EXCH(float)

#define CUDASIM_ATOMIC_MIN_MAX(type)                    \
  CUDASIM_ATOMIC(atomicMin, type, std::min(old, value)) \
  CUDASIM_ATOMIC(atomicMax, type, std::max(old, value))
CUDASIM_ATOMIC_MIN_MAX(int)
CUDASIM_ATOMIC_MIN_MAX(unsigned)
CUDASIM_ATOMIC_MIN_MAX(long long)
CUDASIM_ATOMIC_MIN_MAX(unsigned long long)

#define CUDASIM_ATOMIC_BITS(type)             \
  CUDASIM_ATOMIC(atomicAnd, type, old& value) \
  CUDASIM_ATOMIC(atomicOr, type, old | value) \
  CUDASIM_ATOMIC(atomicXor, type, old ^ value)
CUDASIM_ATOMIC_BITS(int)
CUDASIM_ATOMIC_BITS(unsigned)
CUDASIM_ATOMIC_BITS(unsigned long long)

CUDASIM_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
CUDASIM_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)

#define CUDASIM_ATOMIC_CAS(type)                                                           \
  type atomicCAS(type* address, type expected, type desired) {                             \
    return exchange_by(address, __builtin_return_address(0),                               \
                       [=](type old) -> type { return old == expected ? desired : old; }); \
  }
CUDASIM_ATOMIC_CAS(int)
CUDASIM_ATOMIC_CAS(unsigned)
CUDASIM_ATOMIC_CAS(unsigned long long)
