#include "heddle/core/kept_cast.h"

#include <mutex>
#include <utility>

#include "heddle/core/tensor_impl.h"

namespace heddle {
namespace {

std::mutex& kept_mutex() {
  static std::mutex mutex;
  return mutex;
}

bool is_current(const AutogradMeta* meta, const Tensor& x) {
  return meta != nullptr && meta->cast.defined() && meta->cast_version == x.version();
}

}  // namespace

void keep_cast(const Tensor& x, Tensor copy) {
  HEDDLE_CHECK(copy.defined() && copy.shape() == x.shape() && copy.device() == x.device(),
               "keep_cast: the copy must have the shape {} and the device of x", x.shape());
  const std::lock_guard lock(kept_mutex());
  AutogradMeta& meta = TapeAccess::meta(x);
  meta.cast = std::move(copy);
  meta.cast_version = x.version();
}

Tensor kept_cast(const Tensor& x, DType dtype) {
  const std::lock_guard lock(kept_mutex());
  const AutogradMeta* meta = TapeAccess::find_meta(x);
  return is_current(meta, x) && meta->cast.dtype() == dtype ? meta->cast : Tensor();
}

Tensor take_cast(const Tensor& x) {
  const std::lock_guard lock(kept_mutex());
  const AutogradMeta* meta = TapeAccess::find_meta(x);
  if (!is_current(meta, x)) return {};
  Tensor copy = std::move(TapeAccess::meta(x).cast);
  return TapeAccess::is_unique(copy) ? copy : Tensor();
}

}  // namespace heddle
