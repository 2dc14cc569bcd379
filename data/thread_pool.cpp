#include "heddle/data/thread_pool.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "heddle/core/denormals.h"
#include "heddle/core/error.h"
#include "heddle/core/tape.h"
#include "heddle/core/trace.h"

namespace heddle {

ThreadPool::ThreadPool(int n_threads) {
  try {
    resize(n_threads);
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::resize(int n_threads) {
  HEDDLE_CHECK(n_threads >= 1, "thread_pool: {} threads, expected at least 1", n_threads);
  std::string error;
  try {
    for (int i = static_cast<int>(threads_.size()); i < n_threads; ++i)
      threads_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& failed) {
    error = failed.what();
  }
  const int started = static_cast<int>(threads_.size());
  {
    const std::lock_guard lock(mutex_);
    n_wanted_ = std::min(n_threads, started);
  }
  // All of them: one that is not wanted any more may have been told of a task just now.
  has_work_.notify_all();
  is_wanted_.notify_all();
  if (!error.empty())
    fail("thread_pool: thread {} of {} could not be started: {}", started + 1, n_threads, error);
}

int ThreadPool::n_threads() const {
  const std::lock_guard lock(mutex_);
  return n_wanted_;
}

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  has_work_.notify_all();
  is_wanted_.notify_all();
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
    is_wanted_.wait(lock, [&] { return stopping_ || number < n_wanted_; });
    has_work_.wait(lock, [&] { return stopping_ || number >= n_wanted_ || !tasks_.empty(); });
    if (stopping_) return;
    if (number >= n_wanted_) continue;
    std::packaged_task<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();  // what it throws goes into the future
    task = {};
    lock.lock();
  }
}

}  // namespace heddle
