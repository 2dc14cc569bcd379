// Whether no element is NaN or infinite: none has an exponent of all ones. One read an element, and
// it stops early once one is found.
#include <atomic>

#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/loop_nest.h"
#include "heddle/kernels/reduce.h"

namespace heddle {
namespace {

template <class Word>
bool all_finite_words(const void* data, int64_t n, Word exponent) {
  const Word* words = static_cast<const Word*>(data);
  std::atomic<bool> finite{true};
  parallel_ranges(n, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
    if (!finite.load(std::memory_order_relaxed)) return;
    Word found = 0;
    cpu::vectorized(
        [](const Word* x, int64_t count, Word mask, Word* out) HEDDLE_VECTOR_LOOP {
          Word any = 0;
          for (int64_t i = 0; i < count; ++i)
            any = static_cast<Word>(any | ((x[i] & mask) == mask ? 1 : 0));
          *out = any;
        },
        words + begin, end - begin, exponent, &found);
    if (found != 0) finite.store(false, std::memory_order_relaxed);
  });
  return finite;
}

bool run(const AllFiniteArgs& args) {
  switch (args.dtype) {
    case DType::kFloat32:
      return all_finite_words<uint32_t>(args.x, args.n, 0x7f800000U);
    case DType::kFloat64:
      return all_finite_words<uint64_t>(args.x, args.n, 0x7ff0000000000000U);
    case DType::kBFloat16:
      return all_finite_words<uint16_t>(args.x, args.n, 0x7f80U);
    case DType::kFloat16:
      return all_finite_words<uint16_t>(args.x, args.n, 0x7c00U);
    case DType::kUInt8:
    case DType::kInt64:
      break;
  }
  return true;
}

}  // namespace

void cpu::all_finite(const AllFiniteArgs& args) { *args.finite = run(args); }

}  // namespace heddle
