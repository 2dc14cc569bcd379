#include "team.h"

namespace cudasim {

// Never destroyed: its threads wait until the process ends.
Team& Team::shared() {
  static Team& team = *new Team;
  return team;
}

void Team::run(int threads, const std::function<void()>& work) {
  const std::lock_guard turn(turn_);
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    wanted_ = threads - 1;
    running_ = wanted_;
    ++generation_;
    while (static_cast<int>(helpers_.size()) < wanted_) {
      const int number = static_cast<int>(helpers_.size());
      helpers_.emplace_back([this, number] { helper(number); });
    }
  }
  begin_.notify_all();
  work();
  std::unique_lock lock(mutex_);
  end_.wait(lock, [&] { return running_ == 0; });
}

void Team::helper(int number) {
  long seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    begin_.wait(lock, [&] { return generation_ != seen; });
    seen = generation_;
    if (number >= wanted_) continue;
    const std::function<void()>* work = work_;
    lock.unlock();
    (*work)();
    lock.lock();
    if (--running_ == 0) end_.notify_all();
  }
}

}  // namespace cudasim
