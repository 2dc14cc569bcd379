#include "heddle/parallel/lanes.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "heddle/core/denormals.h"
#include "heddle/core/error.h"
#include "heddle/core/flavour.h"
#include "heddle/core/stream.h"
#include "heddle/core/tape.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/thread_share.h"
#include "heddle/nn/amp/autocast.h"

#ifdef HEDDLE_WITH_CUDA
#include "heddle/core/capture_arena.h"
#endif

namespace heddle {

/// What is asked of all lanes, with the state of the thread that asks.
struct Lanes::Job {
  const std::function<void(int, int64_t)>& function;
  GradState grad_state;
  std::optional<DType> precision;
  int n_threads;
  std::vector<StreamRef> streams = {};
#ifdef HEDDLE_WITH_CUDA
  CaptureArena::Set arenas = {};
#endif

  /// Whether the thread that asks captures its work into a graph. CUDA wants calls that add to one
  /// graph in turn, not at once.
  bool captures() const {
#ifdef HEDDLE_WITH_CUDA
    return !arenas.empty();
#else
    return false;
#endif
  }
};

/// A thread of a lane: sleeps until it is given a job.
class Lanes::Worker {
 public:
  Worker(int lane, int64_t number) : lane_(lane), number_(number), thread_([this] { loop(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start(const Job& job) {
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      error_ = nullptr;
    }
    changed_.notify_all();
  }

  std::exception_ptr wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return job_ == nullptr; });
    return error_;
  }

 private:
  void loop() {
    const FlushDenormals flush;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return job_ != nullptr || leaving_; });
      if (leaving_) return;
      const Job& job = *job_;
      lock.unlock();
      std::exception_ptr error;
      try {
        work(job);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = error;
      job_ = nullptr;
      changed_.notify_all();
    }
  }

  void work(const Job& job) const {
    const auto grad_mode = job.grad_state.apply();
    std::optional<Autocast> precision;
    if (job.precision) precision.emplace(*job.precision);
    const ThreadShare share(job.n_threads);
#ifdef HEDDLE_WITH_CUDA
    std::optional<StreamGuard> guard;
    const StreamRef stream = job.streams[static_cast<size_t>(lane_)];
    if (stream.get() != nullptr) guard.emplace(stream);
    const CaptureArena::Share share_of_graph(job.arenas);
#endif
    job.function(lane_, number_);
  }

  int lane_;
  int64_t number_;  // in the lane
  std::mutex mutex_;
  std::condition_variable changed_;
  const Job* job_ = nullptr;
  bool leaving_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // the last: it sees the others made
};

Lanes::Lanes(std::vector<Device> devices)
    : devices_(std::move(devices)), workers_(devices_.size()) {
  HEDDLE_CHECK(!devices_.empty(), "Lanes: no devices, expected at least one");
}

Lanes::~Lanes() = default;

void Lanes::run(const std::function<void(int)>& job) {
  ask(std::vector<int64_t>(devices_.size(), 1), [&](int lane, int64_t) { job(lane); });
}

void Lanes::run(const std::vector<int64_t>& n_threads,
                const std::function<void(int, int64_t)>& job) {
#ifdef HEDDLE_WITH_CUDA
  HEDDLE_CHECK(CaptureArena::current().empty(),
               "DataParallel: shards that wait for each other, as for a synchronised batch-norm, "
               "cannot be captured into a graph");
#endif
  ask(n_threads, job);
}

void Lanes::ask(const std::vector<int64_t>& n_threads,
                const std::function<void(int, int64_t)>& job) {
  Job shared{job, {}, autocast_dtype(), std::max(1, num_threads() / size())};
  for (const Device device : devices_) shared.streams.push_back(current_stream(device));
#ifdef HEDDLE_WITH_CUDA
  shared.arenas = CaptureArena::current();
#endif
  const std::vector<std::pair<int, Worker*>> asked = workers_for(n_threads);
  int failed = -1;
  std::exception_ptr error;
  const auto wait_for = [&](int lane, Worker* worker) {
    const std::exception_ptr thrown = worker->wait();
    if (thrown == nullptr || error != nullptr) return;
    failed = lane;
    error = thrown;
  };
  for (const auto& [lane, worker] : asked) {
    if (error != nullptr) break;
    worker->start(shared);
    if (shared.captures()) wait_for(lane, worker);
  }
  for (const auto& [lane, worker] : asked)
    if (!shared.captures()) wait_for(lane, worker);
  if (error != nullptr) rethrow(failed, error);
}

std::vector<std::pair<int, Lanes::Worker*>> Lanes::workers_for(
    const std::vector<int64_t>& n_threads) {
  std::vector<std::pair<int, Worker*>> asked;
  for (int lane = 0; lane < size(); ++lane) {
    auto& mine = workers_[static_cast<size_t>(lane)];
    for (int64_t i = 0; i < n_threads[static_cast<size_t>(lane)]; ++i) {
      if (i == static_cast<int64_t>(mine.size())) mine.push_back(std::make_unique<Worker>(lane, i));
      asked.emplace_back(lane, mine[static_cast<size_t>(i)].get());
    }
  }
  return asked;
}

void Lanes::rethrow(int lane, const std::exception_ptr& error) const {
  const Device device = devices_[static_cast<size_t>(lane)];
  const std::string name = device.type == DeviceType::kCpu
                               ? fmt::format("replica {} on the CPU", lane)
                               : fmt::format("replica {} on {}", lane, device.to_string());
  try {
    std::rethrow_exception(error);
  } catch (const OutOfMemory& thrown) {
    throw OutOfMemory(fmt::format("{}: {}", name, thrown.what()));
  } catch (const std::exception& thrown) {
    throw Error(fmt::format("{}: {}", name, thrown.what()));
  }
}

}  // namespace heddle
