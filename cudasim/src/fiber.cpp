#include "fiber.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#ifdef CUDASIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef CUDASIM_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#ifdef CUDASIM_SWITCH_BY_RETURN
// Saves what a called function must keep, swaps the stacks, and takes it back. The return address
// taken is that of the other stack's own call.
asm(R"(
.text
.p2align 4
.globl cudasim_switch_stack
.type cudasim_switch_stack, @function
cudasim_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cudasim_switch_stack, .-cudasim_switch_stack
)");
#else
#include <boost/context/detail/fcontext.hpp>
#endif

namespace cudasim {

namespace {

constexpr size_t kPage = 4096;
// Kernels keep little on the stack; pages that are not touched cost nothing.
#ifdef CUDASIM_ASAN
constexpr size_t kStackBytes = size_t{256} << 10;
#else
constexpr size_t kStackBytes = size_t{128} << 10;
#endif
// First frames are spread over a page, or the tops of all stacks would share a few cache sets.
constexpr size_t kColours = 16;
constexpr size_t kColourBytes = kPage / kColours;

/// AddressSanitizer marks what lies between variables. Frames that never return do not take their
/// marks away, and those outlast the memory: whatever is mapped there next would be found at fault.
void forget_frames(const Fiber& fiber) {
#ifdef CUDASIM_ASAN
  __asan_unpoison_memory_region(fiber.low, static_cast<size_t>(fiber.high - fiber.low));
#else
  static_cast<void>(fiber);
#endif
}

}  // namespace

FiberPool::FiberPool(void (*entry)()) : entry_(entry) {
#ifdef CUDASIM_TSAN
  host_.tsan_fiber = __tsan_get_current_fiber();
#endif
}

FiberPool::~FiberPool() {
  for (const auto& fiber : all_) {
    forget_frames(*fiber);
#ifdef CUDASIM_TSAN
    __tsan_destroy_fiber(fiber->tsan_fiber);
#endif
    munmap(fiber->low - kPage, kStackBytes + kPage);
  }
}

void FiberPool::map(Fiber& fiber) {
  void* memory = mmap(nullptr, kStackBytes + kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, kPage, PROT_NONE);
  fiber.low = static_cast<char*>(memory) + kPage;
  fiber.high = fiber.low + kStackBytes;
  fiber.start = fiber.high - (all_.size() % kColours) * kColourBytes;
#ifdef CUDASIM_TSAN
  fiber.tsan_fiber = __tsan_create_fiber(0);
#endif
}

Fiber* FiberPool::take() {
  if (free_.empty()) {
    auto fiber = std::make_unique<Fiber>();
    map(*fiber);
    free_.push_back(fiber.get());
    all_.push_back(std::move(fiber));
  }
  Fiber* fiber = free_.back();
  free_.pop_back();
  return fiber;
}

void FiberPool::abandon(Fiber* fiber) {
  fiber->context = nullptr;
  forget_frames(*fiber);
#ifdef CUDASIM_TSAN
  __tsan_destroy_fiber(fiber->tsan_fiber);
  fiber->tsan_fiber = __tsan_create_fiber(0);
#endif
  free_.push_back(fiber);
}

#ifdef CUDASIM_SWITCH_BY_RETURN

void FiberPool::begin(Fiber& fiber) {
  // As a call of the entry would leave it: a return address on top (none), six registers below that
  // the first switch takes, and the entry as what it returns to.
  void** top = reinterpret_cast<void**>(fiber.start) - 1;
  *top = nullptr;
  *--top = reinterpret_cast<void*>(entry_);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber.context = top;
}

#else

namespace {

using boost::context::detail::transfer_t;

/// What a switch hands over: who left, and to whom.
struct Switch {
  FiberPool* pool;
  Fiber* from;
  Fiber* to;
};

/// Runs first on the stack that is switched to.
void arrive(const Switch& change, transfer_t transfer, bool first) {
  change.from->context = transfer.fctx;
#ifdef CUDASIM_ASAN
  const void* low = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(first ? nullptr : change.to->fake_stack, &low, &bytes);
  if (change.from->low == nullptr) {  // the host thread's stack, seen for the first time
    change.from->low = static_cast<char*>(const_cast<void*>(low));
    change.from->high = change.from->low + bytes;
  }
#else
  static_cast<void>(first);
#endif
}

void first_arrival(transfer_t transfer) {
  const Switch* change = static_cast<const Switch*>(transfer.data);
  FiberPool* pool = change->pool;
  arrive(*change, transfer, true);
  pool->enter();
}

}  // namespace

void FiberPool::begin(Fiber& fiber) {
  fiber.context = boost::context::detail::make_fcontext(
      fiber.start, static_cast<size_t>(fiber.start - fiber.low), &first_arrival);
}

void FiberPool::jump_to(Fiber& from, Fiber& to) {
  const Switch change{this, &from, &to};
#ifdef CUDASIM_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.low, static_cast<size_t>(to.high - to.low));
#endif
#ifdef CUDASIM_TSAN
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
  const transfer_t transfer =
      boost::context::detail::jump_fcontext(to.context, const_cast<Switch*>(&change));
  arrive(*static_cast<const Switch*>(transfer.data), transfer, false);
}

#endif

}  // namespace cudasim
