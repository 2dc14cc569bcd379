#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace cudasim {

/// A context to switch to: a kernel thread's with its own stack, or the host thread's.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;  ///< null: begins anew at the next switch
  char* low = nullptr;                                   ///< its stack
  char* high = nullptr;
  char* start = nullptr;       ///< where the first frame goes, below `high`
  void* fake_stack = nullptr;  ///< AddressSanitizer's
  void* tsan_fiber = nullptr;  ///< ThreadSanitizer's
};

/// The fibers of one host thread, their stacks with a guard page each. They are kept from block to
/// block; a fiber whose kernel thread was abandoned begins anew.
class FiberPool {
 public:
  /// `entry` is where a new fiber begins; it never returns.
  explicit FiberPool(void (*entry)());
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  Fiber* take();
  void give(Fiber* fiber) { free_.push_back(fiber); }

  /// Takes all fibers back; those of `abandoned` lose what was on their stacks.
  void abandon(Fiber* fiber);

  /// Leaves `from`, which runs now, and goes on with `to`. Returns when somebody switches back.
  void switch_to(Fiber& from, Fiber& to);

  Fiber& host() { return host_; }

 private:
  void map(Fiber& fiber);
  static void begin(boost::context::detail::transfer_t transfer);

  void (*entry_)();
  Fiber host_;
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> free_;
};

}  // namespace cudasim
