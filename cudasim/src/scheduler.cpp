#include "scheduler.h"

#include <thread>

#include "runtime.h"

namespace cudasim {

constinit thread_local Operation* current_operation = nullptr;

void Scheduler::set(Schedule schedule, uint64_t seed) {
  schedule_ = schedule;
  random_.seed(seed);
}

void Scheduler::submit(Lock& lock, OperationPtr operation,
                       std::span<const OperationPtr> waits_for) {
  operation->sequence = ++n_submitted_;
  for (const OperationPtr& earlier : waits_for) {
    if (earlier == nullptr || earlier->done()) continue;
    operation->waits_for.push_back(earlier);
    earlier->successors.push_back(operation);
    ++operation->n_waiting;
  }
  if (operation->n_waiting == 0 && !operation->work.run) {
    operation->state = Operation::State::kDone;  // a mark after nothing
    operation->done_at = std::chrono::steady_clock::now();
    return;
  }
  ++n_pending_;
  if (operation->n_waiting == 0) ready_.emplace(operation->sequence, std::move(operation));
  if (schedule_ == Schedule::kEager) run_ready(lock);
  if (schedule_ == Schedule::kRandom) {
    while (!ready_.empty() && random_() % 3 == 0) run(lock, pick(nullptr));
  }
}

void Scheduler::run_ready(Lock& lock) {
  while (!ready_.empty()) run(lock, pick(nullptr));
}

/// Takes a ready operation out: of `needed`, or any; null where there is none.
OperationPtr Scheduler::pick(const Needed* needed) {
  auto chosen = ready_.end();
  if (schedule_ == Schedule::kRandom && !ready_.empty()) {
    chosen = std::next(ready_.begin(), static_cast<ptrdiff_t>(random_() % ready_.size()));
  } else if (schedule_ == Schedule::kLatest) {
    for (auto i = ready_.rbegin(); i != ready_.rend() && chosen == ready_.end(); ++i) {
      if (needed == nullptr || needed->contains(i->second.get())) chosen = std::prev(i.base());
    }
  } else {
    for (auto i = ready_.begin(); i != ready_.end() && chosen == ready_.end(); ++i) {
      if (needed == nullptr || needed->contains(i->second.get())) chosen = i;
    }
  }
  if (chosen == ready_.end()) return nullptr;
  OperationPtr operation = std::move(chosen->second);
  ready_.erase(chosen);
  return operation;
}

void Scheduler::run(Lock& lock, const OperationPtr& operation) {
  operation->state = Operation::State::kRunning;
  if (operation->work.on_host) {
    host_functions_.push_back(operation);
    if (!host_thread_started_) {
      host_thread_started_ = true;
      std::thread([this] { call_host_functions(); }).detach();
    }
    host_work_.notify_one();
    return;
  }
  if (operation->work.run) {
    lock.unlock();
    {
      const std::lock_guard turn(one_at_a_time_);
      current_operation = operation.get();
      operation->work.run();
      current_operation = nullptr;
    }
    lock.lock();
  }
  complete(operation);
}

void Scheduler::complete(const OperationPtr& operation) {
  operation->state = Operation::State::kDone;
  operation->done_at = std::chrono::steady_clock::now();
  operation->work.run = nullptr;
  operation->waits_for.clear();
  --n_pending_;
  for (OperationPtr& next : operation->successors) {
    if (--next->n_waiting == 0) ready_.emplace(next->sequence, std::move(next));
  }
  operation->successors.clear();
  asked_in_vain_.erase(operation.get());
  changed_.notify_all();
}

void Scheduler::call_host_functions() {
  Lock lock(runtime().mutex);
  for (;;) {
    host_work_.wait(lock, [&] { return !host_functions_.empty(); });
    const OperationPtr operation = std::move(host_functions_.front());
    host_functions_.erase(host_functions_.begin());
    lock.unlock();
    current_operation = operation.get();
    operation->work.run();
    current_operation = nullptr;
    lock.lock();
    complete(operation);
    if (schedule_ == Schedule::kEager) run_ready(lock);
  }
}

/// The operations that are not done and that `operation` waits for, itself included.
void Scheduler::collect(const OperationPtr& operation, Needed& needed) const {
  std::vector<const Operation*> open{operation.get()};
  while (!open.empty()) {
    const Operation* next = open.back();
    open.pop_back();
    if (next->done() || !needed.insert(next).second) continue;
    for (const OperationPtr& earlier : next->waits_for) open.push_back(earlier.get());
  }
}

void Scheduler::finish(Lock& lock, std::span<const OperationPtr> operations) {
  Needed needed;
  for (const OperationPtr& operation : operations) {
    if (operation != nullptr) collect(operation, needed);
  }
  for (const OperationPtr& operation : operations) {
    while (operation != nullptr && !operation->done()) {
      if (const OperationPtr next = pick(&needed)) {
        run(lock, next);
      } else {
        changed_.wait(lock);  // another thread runs what is missing
      }
    }
  }
}

bool Scheduler::query(Lock& lock, const OperationPtr& operation) {
  if (operation == nullptr || operation->done()) return true;
  if (schedule_ == Schedule::kEager) {
    run_ready(lock);
    return operation->done();
  }
  if (asked_in_vain_.insert(operation.get()).second) return false;
  if (schedule_ == Schedule::kRandom && random_() % 2 == 0) return false;
  finish(lock, {&operation, 1});
  return true;
}

void Scheduler::drain(Lock& lock) {
  while (n_pending_ > 0) {
    if (const OperationPtr next = pick(nullptr)) {
      run(lock, next);
    } else {
      changed_.wait(lock);
    }
  }
}

}  // namespace cudasim
