#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace heddle {

/// A fixed number of threads that take tasks in the order in which they were given. A task runs
/// with the gradient mode of the thread that submitted it, and with subnormal numbers flushed.
class ThreadPool {
 public:
  /// Errors: n_threads < 1, or the system has no more threads.
  explicit ThreadPool(int n_threads);

  /// Ends what runs and drops what has not begun: its futures then report a broken promise.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return static_cast<int>(threads_.size()); }

  /// The future becomes ready when the task has ended, and rethrows what it threw.
  std::future<void> submit(std::function<void()> task);

 private:
  void work(int number);
  void stop();

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<std::packaged_task<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace heddle
