// The exchange of gradients: plans, and logical replicas on the CPU.
#include "heddle/parallel/exchange.h"

#include <algorithm>
#include <set>

#include "heddle/kernels/tree_sum.h"
#include "heddle/tests/parallel/exchange_cases.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

const int64_t kLengths[] = {0, 1, 2, 3, 4, 5, 7, 16, 31, 33, 1023, 20001};

TEST_CASE("Logical replicas on the CPU all get the sum", "[parallel][exchange]") {
  for (const ExchangeKind kind : kExchangeKinds) {
    for (int n = 1; n <= 9; ++n) {
      const std::vector<Device> devices(static_cast<size_t>(n));
      Exchange exchange(kind, devices, Links::of(devices));
      const std::vector<StreamRef> streams(devices.size());
      for (const int64_t length : kLengths) {
        INFO(exchange_kind_name(kind) << ", " << n << " replicas, " << length << " elements");
        std::vector<Tensor> flats;
        for (int r = 0; r < n; ++r) flats.push_back(Tensor::from(gradient_of(r, length), {length}));
        exchange.all_reduce(flats, streams);
        std::vector<std::vector<float>> results;
        for (const Tensor& flat : flats) results.push_back(flat.to_vector<float>());
        CHECK(fault_of(kind, results, expected_sum(n, length)).empty());
      }
    }
  }
}

TEST_CASE("The CPU's tree sum is that of a plain loop", "[parallel][exchange]") {
  for (int n = 1; n <= TreeSumArgs::kMaxInputs; ++n) {
    constexpr int64_t kLength = 40'007;  // several pieces
    std::vector<std::vector<float>> inputs;
    TreeSumArgs args{};
    for (int k = 0; k < n; ++k) inputs.push_back(gradient_of(k, kLength));
    for (const auto& input : inputs) args.x[args.n_inputs++] = input.data();
    args.y = inputs.back().data();  // over one of the inputs
    args.n = kLength;
    const std::vector<float> expected = expected_sum(n, kLength).tree;
    cpu::tree_sum(args);
    CHECK(inputs.back() == expected);
  }
}

TEST_CASE("Direct and ring send the least that is possible", "[parallel][exchange]") {
  for (int n = 1; n <= 16; ++n) {
    const int64_t length = 720720L * 4;  // every number of parts divides it
    const double least = least_bytes(n, length);
    for (const ExchangeKind kind : {ExchangeKind::kDirect, ExchangeKind::kRing})
      for (const int64_t bytes : bytes_by_replica(plan_exchange(kind, n, length)))
        CHECK(static_cast<double>(bytes) == Approx(least));
    CHECK(bytes_by_replica(plan_exchange(ExchangeKind::kGather, n, length))[0] ==
          (n - 1) * length * 4);
  }
}

TEST_CASE("Parts cover each element once, whatever the length", "[parallel][exchange]") {
  for (int n = 2; n <= 9; ++n) {
    for (const int64_t length : kLengths) {
      const ExchangePlan plan = plan_exchange(ExchangeKind::kDirect, n, length);
      std::vector<int> covered(static_cast<size_t>(length));
      for (const ExchangePhase& phase : plan.phases)
        for (const Sum& sum : phase.sums)
          for (int64_t i = sum.first; i < sum.first + sum.count; ++i)
            ++covered[static_cast<size_t>(i)];
      CHECK(std::count(covered.begin(), covered.end(), 1) == length);
    }
  }
}

TEST_CASE("The exchange is chosen by the links, in tree order unless told", "[parallel]") {
  const int64_t large = int64_t{1} << 24;
  Links even(8, {.peer_access = true, .bytes_per_second = 20e9, .latency = 1e-6});
  CHECK(choose_exchange(even, large) == ExchangeKind::kDirect);
  Links neighbours(8, {.peer_access = true, .bytes_per_second = 1e9, .latency = 1e-6});
  for (int i = 0; i < 8; ++i) neighbours.at(i, (i + 1) % 8).bytes_per_second = 100e9;
  CHECK(choose_exchange(neighbours, large) == ExchangeKind::kDirect);
  CHECK(choose_exchange(neighbours, large, true) == ExchangeKind::kRing);
  Links slow = even;
  slow.at(0, 1).bytes_per_second = 1e8;
  const ExchangePlan plan = plan_exchange(ExchangeKind::kDirect, 8, large);
  CHECK(estimated_seconds(plan, slow) > estimated_seconds(plan, even));
  slow = even;
  slow.at(0, 1).peer_access = false;
  CHECK(estimated_seconds(plan, slow) > estimated_seconds(plan, even));
}

TEST_CASE("Wrong exchanges are refused by name", "[parallel][exchange]") {
  const std::vector<Device> two(2);
  CHECK_THROWS_WITH(Exchange(ExchangeKind::kDirect, two, Links(3)),
                    ContainsSubstring("2 devices, links of 3"));
  CHECK_THROWS_WITH(plan_exchange(ExchangeKind::kDirect, 17, 1),
                    ContainsSubstring("17 replicas, 1 to 16"));
  CHECK_THROWS_WITH(plan_exchange(ExchangeKind::kDirect, 0, 1), ContainsSubstring("0 replicas"));
  CHECK_THROWS_WITH(plan_exchange(ExchangeKind::kRing, 2, -1), ContainsSubstring("-1 elements"));
  CHECK_THROWS_WITH(Links(0), ContainsSubstring("0 devices"));
  CHECK_THROWS_WITH(Links(2).at(2, 0), ContainsSubstring("from 2 to 0 of 2"));
  CHECK_THROWS_WITH(estimated_seconds(plan_exchange(ExchangeKind::kDirect, 2, 8), Links(3)),
                    ContainsSubstring("2 replicas, links of 3"));
  const Device cuda{DeviceType::kCuda, 0};
  CHECK_THROWS_WITH(Exchange(ExchangeKind::kDirect, {Device::cpu(), cuda}, Links(2)),
                    ContainsSubstring("different kinds"));
  CHECK_THROWS_WITH(Exchange(ExchangeKind::kDirect, {cuda, cuda}, Links(2)),
                    ContainsSubstring("cuda:0 is given more than once"));

  Exchange exchange(ExchangeKind::kDirect, two, Links(2));
  const std::vector<StreamRef> streams(2);
  const Tensor x = Tensor::from<float>({1, 2, 3, 4}, {4});
  const auto reduce = [&](std::vector<Tensor> flats) { exchange.all_reduce(flats, streams); };
  CHECK_THROWS_WITH(reduce({x}), ContainsSubstring("1 tensors and 2 streams for 2 devices"));
  CHECK_THROWS_WITH(reduce({x, Tensor::from<float>({1}, {1})}),
                    ContainsSubstring("tensor 1 has 1 elements, tensor 0 has 4"));
  CHECK_THROWS_WITH(reduce({x, x.as_strided({2, 2}, {2, 1}, 0)}),
                    ContainsSubstring("tensor 1 is float32 (2, 2)"));
  CHECK_THROWS_WITH(reduce({x, Tensor::from<int64_t>({1, 2, 3, 4}, {4})}),
                    ContainsSubstring("tensor 1 is int64"));
}

}  // namespace
}  // namespace heddle
