#include "heddle/data/thread_pool.h"

#include <system_error>

#include "heddle/core/denormals.h"
#include "heddle/core/error.h"
#include "heddle/core/tape.h"
#include "heddle/core/trace.h"

namespace heddle {

ThreadPool::ThreadPool(int n_threads) {
  HEDDLE_CHECK(n_threads >= 1, "thread_pool: {} threads, expected at least 1", n_threads);
  try {
    for (int i = 0; i < n_threads; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    const size_t started = threads_.size();
    stop();
    fail("thread_pool: thread {} of {} could not be started: {}", started + 1, n_threads,
         error.what());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  has_work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  tasks_.clear();
}

std::future<void> ThreadPool::submit(std::function<void()> task) {
  std::packaged_task<void()> packaged([task = std::move(task), mode = GradState()] {
    const GradState::Scope scope = mode.apply();
    task();
  });
  std::future<void> done = packaged.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(packaged));
  }
  has_work_.notify_one();
  return done;
}

void ThreadPool::work(int number) {
  set_thread_name(fmt::format("loader {}", number));
  const FlushDenormals flush;
  std::unique_lock lock(mutex_);
  while (true) {
    has_work_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    std::packaged_task<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();  // what it throws goes into the future
    task = {};
    lock.lock();
  }
}

}  // namespace heddle
