#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle {

/// Threads that take tasks in the order in which they were given. A task runs with the gradient
/// mode of the thread that submitted it, and with subnormal numbers flushed.
class ThreadPool {
 public:
  /// Errors: n_threads < 1, or the system has no more threads.
  explicit ThreadPool(int n_threads);

  /// Ends what runs and drops what has not begun: its futures then report a broken promise.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// From now on so many take tasks: threads are started where there are fewer, those beyond end
  /// what they do and sleep. One caller at a time. Errors: those of the constructor; then as many
  /// as could be started take tasks.
  void resize(int n_threads);
  int n_threads() const;  ///< That take tasks.

  /// The future becomes ready when the task has ended, and rethrows what it threw.
  std::future<void> submit(std::function<void()> task);

 private:
  void work(int number);
  void stop();

  mutable std::mutex mutex_;
  std::condition_variable has_work_;  // or the thread is not to take any more, or to end
  std::condition_variable is_wanted_;
  std::deque<std::packaged_task<void()>> tasks_;
  bool stopping_ = false;
  int n_wanted_ = 0;  // threads 0 .. n_wanted_-1 take tasks
  std::vector<std::thread> threads_;
};

}  // namespace heddle
