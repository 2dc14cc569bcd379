#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define CUDASIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUDASIM_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define CUDASIM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CUDASIM_TSAN 1
#endif
#endif

// Boost.Context switches by a jump, after which each return on the new stack is predicted wrongly;
// a switch by a return, as all threads of a block call the same functions, is predicted rightly and
// makes barriers and shuffles twice as fast. So this processor has one of its own.
#if defined(__x86_64__) && !defined(CUDASIM_ASAN) && !defined(CUDASIM_TSAN)
#define CUDASIM_SWITCH_BY_RETURN 1
extern "C" void cudasim_switch_stack(void** from, void* to);
#endif

namespace cudasim {

/// A context to switch to: a kernel thread's with its own stack, or the host thread's.
struct Fiber {
  void* context = nullptr;  ///< null: begins anew at the next switch
  char* low = nullptr;      ///< its stack
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

  /// Takes back a fiber and forgets what is on its stack.
  void abandon(Fiber* fiber);

  /// Leaves `from`, which runs now, and goes on with `to`. Returns when somebody switches back.
  void switch_to(Fiber& from, Fiber& to) {
    if (to.context == nullptr) begin(to);
#ifdef CUDASIM_SWITCH_BY_RETURN
    cudasim_switch_stack(&from.context, to.context);
#else
    jump_to(from, to);
#endif
  }

  Fiber& host() { return host_; }
  void enter() { entry_(); }

 private:
  void map(Fiber& fiber);
  void begin(Fiber& fiber);
  void jump_to(Fiber& from, Fiber& to);

  void (*entry_)();
  Fiber host_;
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> free_;
};

}  // namespace cudasim
