#include "heddle/apps/train_cifar/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>

namespace heddle::train_cifar {
namespace {

constexpr int kExitInterrupted = 130;
std::atomic<int> signals_left = 0;  // that are answered by setting the flag
std::atomic<bool> flag = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

/// Async-signal-safe: lock-free atomics, write and _exit only.
void on_signal(int) {
  const int saved_errno = errno;
  if (signals_left.fetch_sub(1) < 1) _exit(kExitInterrupted);
  flag = true;
  constexpr std::string_view kNote =
      "\ntrain_cifar: stopping after this step; again to stop at once\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, kNote.data(), kNote.size());
  errno = saved_errno;
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGXFSZ, SIG_IGN);
}

void begin_interruptible() { signals_left = 1; }

bool interrupted() { return flag; }

}  // namespace heddle::train_cifar
