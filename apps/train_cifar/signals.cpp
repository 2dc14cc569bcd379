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

/// The terminal is gone, or nobody reads the output any more: nothing is printed, and it may come
/// again with each line, so it is never the second signal that ends at once.
void on_lost_reader(int) {
  if (!flag && signals_left.load() < 1) _exit(kExitInterrupted);
  flag = true;
}

void handle(int signal_number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal_number, &action, nullptr);
}

bool ignored(int signal_number) {
  struct sigaction action {};
  return sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void install_signal_handlers() {
  handle(SIGINT, on_signal);
  handle(SIGTERM, on_signal);
  if (!ignored(SIGHUP)) handle(SIGHUP, on_lost_reader);  // nohup sets it so
  if (!ignored(SIGPIPE)) handle(SIGPIPE, on_lost_reader);
  signal(SIGXFSZ, SIG_IGN);
}

void begin_interruptible() { signals_left = 1; }

bool interrupted() { return flag; }

}  // namespace heddle::train_cifar
