#include "heddle/kernels/host/widen.h"

#include "heddle/kernels/host/parallel_for.h"

namespace heddle::cpu {
namespace {

constexpr int64_t kGrain = 1 << 15;
constexpr int64_t kFloatBytes = sizeof(float);

template <class To, class From>
void convert(To* to, const From* from, int64_t n) {
  parallel_ranges(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = To(float(from[i]));
  });
}

}  // namespace

Widened::Widened(const void* source, int64_t n, DType dtype) {
  if (source == nullptr) return;
  copy_.emplace(n * kFloatBytes);
  dispatch_float(dtype,
                 [&]<class T>() { convert(copy_->as<float>(), static_cast<const T*>(source), n); });
}

Narrowed::Narrowed(void* target, int64_t n, DType dtype) : target_(target), n_(n), dtype_(dtype) {
  if (target != nullptr) values_.emplace(n * kFloatBytes);
}

void Narrowed::write() const {
  if (!values_) return;
  dispatch_float(dtype_, [&]<class T>() {
    convert(static_cast<T*>(target_), values_->as<const float>(), n_);
  });
}

}  // namespace heddle::cpu
