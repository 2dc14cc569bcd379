#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cudasim {

/// Host threads that run the blocks of one launch side by side, kept for the next one.
class Team {
 public:
  static Team& shared();

  /// Calls `work` on this thread and on `threads - 1` others, and returns when all have returned.
  /// Launches that come from several host threads take turns.
  void run(int threads, const std::function<void()>& work);

 private:
  void helper(int number);

  std::mutex turn_;
  std::mutex mutex_;
  std::condition_variable begin_;
  std::condition_variable end_;
  std::vector<std::thread> helpers_;
  const std::function<void()>* work_ = nullptr;
  long generation_ = 0;
  int wanted_ = 0;
  int running_ = 0;
};

}  // namespace cudasim
