#pragma once

namespace heddle {

/// While it lives, this thread's work uses `n` threads of its own: threads that compute side by
/// side share the machine's out with it. Errors: n < 1.
class [[nodiscard]] ThreadShare {
 public:
  explicit ThreadShare(int n);
  ~ThreadShare();
  ThreadShare(const ThreadShare&) = delete;
  ThreadShare& operator=(const ThreadShare&) = delete;

 private:
  int previous_;
};

}  // namespace heddle
