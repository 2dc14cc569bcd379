#include "heddle/core/memory.h"

#include <sys/mman.h>

#include <cstring>
#include <thread>
#include <vector>

#include "heddle/core/denormals.h"
#include "heddle/core/memory_label.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

const Device kCpu = Device::cpu();

TEST_CASE("Blocks are aligned, distinct and reused", "[memory]") {
  memory::release_cached(kCpu);
  const MemoryStats before = memory::stats(kCpu);
  std::vector<void*> blocks;
  for (const int64_t bytes : {0, 1, 64, 1000, 1 << 20, 5 << 20}) {
    blocks.push_back(memory::allocate(kCpu, bytes));
    CHECK(reinterpret_cast<uintptr_t>(blocks.back()) % 64 == 0);
    std::memset(blocks.back(), 0x5a, static_cast<size_t>(bytes));
  }
  const MemoryStats full = memory::stats(kCpu);
  CHECK(full.in_use - before.in_use >= 1001065 + (5 << 20));
  for (void* block : blocks) memory::release(kCpu, block);
  CHECK(memory::stats(kCpu).in_use == before.in_use);
  CHECK(memory::stats(kCpu).held == full.held);

  void* again = memory::allocate(kCpu, 5 << 20);
  CHECK(again == blocks.back());
  CHECK(memory::stats(kCpu).system_calls == full.system_calls);
  memory::release(kCpu, again);
  memory::release_cached(kCpu);
  CHECK(memory::stats(kCpu).held == before.held);
}

TEST_CASE("A small request does not take a large block", "[memory]") {
  memory::release_cached(kCpu);
  void* large = memory::allocate(kCpu, 1 << 22);
  memory::release(kCpu, large);
  void* small = memory::allocate(kCpu, 4096);
  CHECK(small != large);
  memory::release(kCpu, small);
}

TEST_CASE("A repeated pattern stops asking the system", "[memory]") {
  const auto step = [] {
    std::vector<void*> blocks;
    for (int i = 1; i <= 50; ++i) {
      blocks.push_back(memory::allocate(kCpu, i * 7777));
      if (i % 3 == 0) {
        memory::release(kCpu, blocks.front());
        blocks.erase(blocks.begin());
      }
    }
    for (void* block : blocks) memory::release(kCpu, block);
  };
  for (int i = 0; i < 5; ++i) step();
  const int64_t calls = memory::stats(kCpu).system_calls;
  for (int i = 0; i < 20; ++i) step();
  CHECK(memory::stats(kCpu).system_calls == calls);
}

TEST_CASE("More than the machine has is a clear error, and memory works afterwards", "[memory]") {
  {
    const MemoryLabel label("fc1");
    CHECK_THROWS_WITH(memory::allocate(kCpu, int64_t{1} << 60),
                      ContainsSubstring("no 1099511627776.0 MiB left for fc1: ") &&
                          ContainsSubstring("in use") && !ContainsSubstring(".cpp"));
  }
  CHECK_THROWS_AS(memory::allocate(kCpu, int64_t{1} << 60), OutOfMemory);
  CHECK_THROWS_WITH(memory::allocate(kCpu, INT64_MAX - 100),
                    ContainsSubstring("asked") && !ContainsSubstring(".cpp"));
  CHECK_THROWS_WITH(memory::allocate(kCpu, -1), ContainsSubstring("-1 bytes"));
  memory::release(kCpu, memory::allocate(kCpu, 100));
}

TEST_CASE("Threads share the arena", "[memory]") {
  const int64_t before = memory::stats(kCpu).in_use;
  std::vector<std::thread> threads;
  std::atomic<int> broken{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&broken, t] {
      for (int i = 0; i < 300; ++i) {
        const int64_t bytes = 64 + (i * 37 + t * 101) % 5000;
        auto* block = static_cast<unsigned char*>(memory::allocate(kCpu, bytes));
        std::memset(block, t, static_cast<size_t>(bytes));
        for (int64_t k = 0; k < bytes; ++k) broken += block[k] != t ? 1 : 0;
        memory::release(kCpu, block);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(broken == 0);
  CHECK(memory::stats(kCpu).in_use == before);
}

TEST_CASE("Subnormal numbers are flushed in kernels' threads and nowhere else", "[memory]") {
  volatile float tiny = 1e-39F;
  {
    const FlushDenormals flush;
    CHECK(tiny * 0.5F == 0.0F);
  }
  CHECK(tiny * 0.5F != 0.0F);
  std::vector<float> products(64, 1.0F);
  parallel_for(64, [&](int64_t i) { products[static_cast<size_t>(i)] = tiny * 0.5F; });
  for (const float product : products) CHECK(product == 0.0F);
  CHECK(tiny * 0.5F != 0.0F);
}

TEST_CASE("parallel_for runs each piece once and brings exceptions home", "[parallel]") {
  for (const int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    std::vector<int> counts(1000, 0);
    parallel_for(1000, [&](int64_t i) { ++counts[static_cast<size_t>(i)]; });
    CHECK(counts == std::vector<int>(1000, 1));
    CHECK_THROWS_WITH(parallel_for(100,
                                   [](int64_t i) {
                                     if (i == 57) fail("bad piece {}", i);
                                   }),
                      ContainsSubstring("bad piece 57"));
  }
  set_num_threads(2);
  int nested = 0;
  parallel_for(1, [&](int64_t) { parallel_for(10, [&](int64_t) { ++nested; }); });
  CHECK(nested == 10);
  parallel_for(0, [](int64_t) { FAIL("no piece to run"); });
  CHECK_THROWS_WITH(set_num_threads(0), ContainsSubstring("n is 0"));
}

}  // namespace
}  // namespace heddle
