// The exchange between virtual devices, whenever the queued work runs.
#include <cudasim/order.h>
#include <cudasim/traffic.h>

#include "heddle/kernels/tree_sum.h"
#include "heddle/nn/ops.h"
#include "heddle/parallel/exchange.h"
#include "heddle/tests/parallel/exchange_cases.h"
#include "heddle/tests/parallel/virtual_devices.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

/// Two a device for the whole program: cudasim's check of order remembers every stream there was,
/// so that thousands of them would fill the machine's memory.
StreamRef stream_of(Device device, int which = 0) {
  static std::vector<Stream> streams;
  const int index = 2 * device.index + which;
  while (static_cast<int>(streams.size()) <= index)
    streams.emplace_back(Device{DeviceType::kCuda, static_cast<int>(streams.size()) / 2});
  return streams[static_cast<size_t>(index)];
}

using Results = std::vector<std::vector<float>>;  // of each replica

/// Replicas that keep their tensors and streams over several exchanges.
class Replicas {
 public:
  Replicas(ExchangeKind kind, int n)
      : devices_(devices_of(n)), exchange_(kind, devices_, Links::of(devices_)) {
    for (const Device device : devices_) refs_.push_back(stream_of(device));
  }

  /// Two exchanges in a row: the second's gradients are written over the first's sums as soon as
  /// the streams allow, with no host in between.
  std::vector<Results> exchange_twice(int64_t elements) {
    std::vector<std::vector<Tensor>> fresh(2), sums(2);
    std::vector<Tensor> flats;
    for (size_t r = 0; r < devices_.size(); ++r) {
      const StreamGuard guard(refs_[r]);
      for (int round = 0; round < 2; ++round)
        fresh[static_cast<size_t>(round)].push_back(
            to(Tensor::from(gradient_of(static_cast<int>(r), elements, round), {elements}),
               devices_[r]));
      flats.push_back(
          Tensor::empty({elements}, DType::kFloat32, MemoryFormat::kContiguous, devices_[r]));
    }
    for (size_t round = 0; round < 2; ++round) {
      for (size_t r = 0; r < devices_.size(); ++r) {
        const StreamGuard guard(refs_[r]);
        copy_(flats[r], fresh[round][r]);
      }
      exchange_.all_reduce(flats, refs_);
      for (size_t r = 0; r < devices_.size(); ++r) {
        const StreamGuard guard(refs_[r]);
        sums[round].push_back(clone(flats[r]));
      }
    }
    return {read(sums[0]), read(sums[1])};
  }

 private:
  Results read(const std::vector<Tensor>& tensors) const {
    Results results;
    for (size_t r = 0; r < tensors.size(); ++r) {
      const StreamGuard guard(refs_[r]);
      results.push_back(tensors[r].to_vector<float>());
    }
    return results;
  }

  std::vector<Device> devices_;
  Exchange exchange_;
  std::vector<StreamRef> refs_;
};

void check_exchange(ExchangeKind kind, int n, Peers peers, cudasim::Schedule schedule,
                    uint64_t seed) {
  const MachineScope scope(schedule, seed, peers);
  Replicas replicas(kind, n);
  for (const int64_t elements : {0, 3, 8 * n, 301}) {
    INFO(exchange_kind_name(kind) << ", " << n << " replicas, peers " << static_cast<int>(peers)
                                  << ", schedule " << static_cast<int>(schedule) << ", seed "
                                  << seed << ", " << elements << " elements");
    const std::vector<Results> results = replicas.exchange_twice(elements);
    for (int round = 0; round < 2; ++round)
      CHECK(fault_of(kind, results[static_cast<size_t>(round)], expected_sum(n, elements, round)) ==
            "");
  }
}

void check_all(cudasim::Schedule schedule, uint64_t seed) {
  for (const ExchangeKind kind : kExchangeKinds)
    for (int n = 1; n <= 8; ++n)
      for (const Peers peers : {Peers::kAll, Peers::kNone, Peers::kOnePairMissing})
        check_exchange(kind, n, peers, schedule, seed);
  CHECK(cudasim::order_findings().empty());
}

TEST_CASE("Virtual devices exchange, eagerly and as late as may be", "[device][sim][exchange]") {
  check_all(cudasim::Schedule::kEager, 1);
  check_all(cudasim::Schedule::kLatest, 1);
}

TEST_CASE("Virtual devices exchange in random orders", "[device][sim][exchange]") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {  // pairwise over what check_all takes in full
    const auto kind = kExchangeKinds[seed % 3];
    const auto peers = static_cast<Peers>(seed / 3 % 3);
    check_exchange(kind, static_cast<int>(seed % 8) + 1, peers, cudasim::Schedule::kRandom, seed);
    check_exchange(ExchangeKind::kDirect, 8 - static_cast<int>(seed % 7), peers,
                   cudasim::Schedule::kRandom, seed);
  }
  CHECK(cudasim::order_findings().empty());
}

TEST_CASE("Virtual devices exchange in many random orders", "[device][sim][exchange][slow]") {
  for (uint64_t seed = 1; seed <= 200; ++seed) check_all(cudasim::Schedule::kRandom, seed);
}

/// What one exchange is asked to sum: round `round` of the gradients, on one set of streams.
struct Call {
  Call(const std::vector<Device>& devices, int64_t elements_, int round_, int which)
      : elements(elements_), round(round_) {
    for (const Device device : devices) {
      streams.push_back(stream_of(device, which));
      const StreamGuard guard(streams.back());
      flats.push_back(
          to(Tensor::from(gradient_of(device.index, elements, round), {elements}), device));
    }
  }
  Results read() const {
    Results results;
    for (size_t r = 0; r < flats.size(); ++r) {
      const StreamGuard guard(streams[r]);
      results.push_back(flats[r].to_vector<float>());
    }
    return results;
  }

  int64_t elements;
  int round;
  std::vector<StreamRef> streams;
  std::vector<Tensor> flats;
};

/// One exchange through the host, on other streams, then on those at another length; it ends, and
/// its pinned memory is written anew, before anybody waits.
void check_reuse(cudasim::Schedule schedule, uint64_t seed) {
  INFO("schedule " << static_cast<int>(schedule) << ", seed " << seed);
  const MachineScope scope(schedule, seed, Peers::kNone);
  const std::vector<Device> devices = devices_of(4);
  std::vector<Call> calls;
  calls.emplace_back(devices, 16, 0, 0);
  calls.emplace_back(devices, 16, 1, 1);
  calls.emplace_back(devices, 300, 2, 1);
  {
    Exchange exchange(ExchangeKind::kDirect, devices, Links::of(devices));
    for (Call& call : calls) exchange.all_reduce(call.flats, call.streams);
  }
  std::vector<Tensor> written;
  for (int i = 0; i < 48; ++i) written.push_back(pinned(full({i % 2 == 0 ? 75 : 4}, -1e9)));
  for (const Call& call : calls)
    CHECK(fault_of(ExchangeKind::kDirect, call.read(),
                   expected_sum(4, call.elements, call.round)) == "");
}

TEST_CASE("One exchange serves other streams and lengths, and may end before its work",
          "[device][sim][exchange]") {
  check_reuse(cudasim::Schedule::kEager, 1);
  check_reuse(cudasim::Schedule::kLatest, 1);
  for (uint64_t seed = 1; seed <= 10; ++seed) check_reuse(cudasim::Schedule::kRandom, seed);
  CHECK(cudasim::order_findings().empty());
}

int64_t copied_from_and_to(int device, int n, bool sent) {
  int64_t bytes = 0;
  for (int other = 0; other < n; ++other)
    if (other != device)
      bytes += sent ? cudasim::copied_bytes(device, other) : cudasim::copied_bytes(other, device);
  return bytes;
}

TEST_CASE("Each device sends and takes 2(N-1)/N of the bytes", "[device][sim][exchange]") {
  const MachineScope scope(cudasim::Schedule::kEager, 1);
  for (const ExchangeKind kind : {ExchangeKind::kDirect, ExchangeKind::kRing}) {
    for (int n = 2; n <= 8; ++n) {
      const int64_t elements = 840L * 4;  // every number of parts divides it
      Replicas replicas(kind, n);
      cudasim::clear_copied_bytes();
      (void)replicas.exchange_twice(elements);
      for (int device = 0; device < n; ++device) {
        INFO(exchange_kind_name(kind) << ", device " << device << " of " << n);
        const double twice = 2 * least_bytes(n, elements);
        CHECK(static_cast<double>(copied_from_and_to(device, n, true)) == Approx(twice));
        CHECK(static_cast<double>(copied_from_and_to(device, n, false)) == Approx(twice));
      }
    }
  }
}

TEST_CASE("Without peer access no copy goes from device to device", "[device][sim][exchange]") {
  const MachineScope scope(cudasim::Schedule::kEager, 1, Peers::kNone);
  Replicas replicas(ExchangeKind::kDirect, 4);
  cudasim::clear_copied_bytes();
  (void)replicas.exchange_twice(64);
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b)
      if (a != b) CHECK(cudasim::copied_bytes(a, b) == 0);
  CHECK(cudasim::copied_bytes(0, cudasim::kHost) > 0);
}

TEST_CASE("The device's tree sum has a plain loop's bits", "[device][sim][exchange]") {
  const Device device{DeviceType::kCuda, 0};
  for (int n = 1; n <= TreeSumArgs::kMaxInputs; ++n) {
    for (const int64_t first : {0, 1}) {  // aligned or not
      std::vector<Tensor> inputs;
      TreeSumArgs args{};
      args.n = 2100 - first;
      for (int k = 0; k < n; ++k)
        inputs.push_back(to(Tensor::from(gradient_of(k, 2100), {2100}), device));
      for (const Tensor& input : inputs) args.x[args.n_inputs++] = input.data<float>() + first;
      args.y = inputs[0].data<float>() + first;
      cuda::tree_sum(args, current_stream(device));
      std::vector<float> expected = expected_sum(n, 2100).tree;
      if (first == 1) expected[0] = gradient_of(0, 2100)[0];
      CHECK(inputs[0].to_vector<float>() == expected);
    }
  }
}

}  // namespace
}  // namespace heddle
