#pragma once

#include <utility>

namespace heddle {

/// The one owner of a CUDA handle (a pointer that `destroy` ends). Move-only; a moved-from one owns
/// nothing.
template <class Handle, void (*destroy)(Handle) noexcept>
class CudaHandle {
 public:
  CudaHandle() = default;
  explicit CudaHandle(Handle handle) noexcept : handle_(handle) {}
  CudaHandle(CudaHandle&& other) noexcept : handle_(other.release()) {}
  CudaHandle& operator=(CudaHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  CudaHandle(const CudaHandle&) = delete;
  CudaHandle& operator=(const CudaHandle&) = delete;
  ~CudaHandle() {
    if (handle_ != nullptr) destroy(handle_);
  }

  Handle get() const { return handle_; }
  [[nodiscard]] Handle release() noexcept { return std::exchange(handle_, nullptr); }

 private:
  Handle handle_ = nullptr;
};

}  // namespace heddle
