#include "heddle/data/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "heddle/core/error.h"
#include "heddle/core/tape.h"
#include "heddle/tests/support/catch.h"

using heddle::ThreadPool;

TEST_CASE("thread_pool: runs every task") {
  ThreadPool pool(3);
  REQUIRE(pool.n_threads() == 3);
  std::atomic<int> sum{0};
  std::vector<std::future<void>> done;
  for (int i = 1; i <= 100; ++i) done.push_back(pool.submit([&sum, i] { sum += i; }));
  for (auto& future : done) future.get();
  REQUIRE(sum == 5050);
}

TEST_CASE("thread_pool: runs every task while its size changes") {
  ThreadPool pool(1);
  std::atomic<int> sum{0};
  std::vector<std::future<void>> done;
  for (int i = 0; i < 2000; ++i) {
    const int size = 1 + i * 7 % 5;
    if (i % 3 == 0) pool.resize(size);
    if (i % 3 == 0) REQUIRE(pool.n_threads() == size);
    done.push_back(pool.submit([&sum] { ++sum; }));
    if (i % 11 == 0) done.back().wait();
  }
  for (auto& future : done) future.get();
  REQUIRE(sum == 2000);
  REQUIRE_THROWS_WITH(pool.resize(0), ContainsSubstring("0 threads, expected at least 1"));
}

TEST_CASE("thread_pool: only as many tasks at a time as its size") {
  ThreadPool pool(4);
  pool.resize(1);
  std::atomic<int> running{0}, most{0};
  std::vector<std::future<void>> done;
  for (int i = 0; i < 200; ++i)
    done.push_back(pool.submit([&] {
      most = std::max(most.load(), ++running);
      std::this_thread::yield();
      --running;
    }));
  for (auto& future : done) future.get();
  REQUIRE(most == 1);
}

TEST_CASE("thread_pool: brings exceptions home and goes on") {
  ThreadPool pool(2);
  auto bad = pool.submit([] { throw heddle::Error("spilt milk"); });
  REQUIRE_THROWS_WITH(bad.get(), ContainsSubstring("spilt milk"));
  auto good = pool.submit([] {});
  REQUIRE_NOTHROW(good.get());
}

TEST_CASE("thread_pool: drops what has not begun when it ends") {
  std::future<void> waiting;
  std::atomic<bool> ran{false};
  std::promise<void> begun;
  {
    ThreadPool pool(1);
    auto running = pool.submit([&begun] {
      begun.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
    waiting = pool.submit([&ran] { ran = true; });
    begun.get_future().wait();
  }
  REQUIRE_THROWS_AS(waiting.get(), std::future_error);
  REQUIRE_FALSE(ran);
}

TEST_CASE("thread_pool: tasks have the submitter's gradient mode") {
  ThreadPool pool(1);
  bool mode = true;
  {
    const heddle::NoGradGuard guard;
    pool.submit([&mode] { mode = heddle::grad_enabled(); }).get();
    REQUIRE_FALSE(mode);
  }
  pool.submit([&mode] { mode = heddle::grad_enabled(); }).get();
  REQUIRE(mode);
}

TEST_CASE("thread_pool: needs a thread") {
  REQUIRE_THROWS_WITH(ThreadPool(0), ContainsSubstring("0 threads, expected at least 1"));
}
