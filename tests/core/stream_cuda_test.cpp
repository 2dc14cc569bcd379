// Streams, events, buffers and pinned memory; under cudasim and on a device.
#include "heddle/core/stream.h"

#include <thread>

#include "heddle/core/buffer.h"
#include "heddle/core/device_guard.h"
#include "heddle/core/event.h"
#include "heddle/core/pinned_buffer.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

const Device kDevice{DeviceType::kCuda, 0};

std::vector<float> read(const Buffer& buffer) {
  std::vector<float> values(static_cast<size_t>(buffer.bytes()) / sizeof(float));
  memory::copy(values.data(), Device::cpu(), buffer.data(), buffer.device(), buffer.bytes());
  return values;
}

void write(const Buffer& buffer, float value) {
  const std::vector<float> values(static_cast<size_t>(buffer.bytes()) / sizeof(float), value);
  memory::copy(buffer.data(), buffer.device(), values.data(), Device::cpu(), buffer.bytes());
}

TEST_CASE("A StreamGuard holds for its thread and scope", "[device][stream]") {
  const StreamRef own = current_stream(kDevice);
  CHECK(own.get() != nullptr);
  CHECK(own.device() == kDevice);
  const Stream stream(kDevice);
  {
    const StreamGuard guard(stream);
    CHECK(current_stream(kDevice) == stream.ref());
    StreamRef elsewhere;
    std::thread([&] { elsewhere = current_stream(kDevice); }).join();
    CHECK(elsewhere == own);
  }
  CHECK(current_stream(kDevice) == own);
  CHECK(current_stream(Device::cpu()) == StreamRef());
}

TEST_CASE("Streams and events move and give up their handles", "[device][stream]") {
  Stream first(kDevice);
  CUstream_st* handle = first.ref().get();
  Stream second(std::move(first));
  CHECK(second.ref().get() == handle);
  CUstream_st* released = second.release();
  CHECK(released == handle);
  const Stream third = Stream::from_native_handle(kDevice, released);
  CHECK(third.ref().is_idle());

  Event event(kDevice);
  CHECK(event.is_done());  // nothing was recorded
  event.record(third);
  event.synchronize();
  CHECK(event.is_done());
  const Event taken = Event::from_native_handle(kDevice, event.release());
  CHECK(taken.is_done());
}

TEST_CASE("Timed events measure", "[device][stream]") {
  TimedEvent begin(kDevice), end(kDevice);
  begin.record(current_stream(kDevice));
  Tensor x = full({1000}, 1.0, DType::kFloat32, kDevice);
  end.record(current_stream(kDevice));
  CHECK((end - begin).count() >= 0.0);
  CHECK((end - begin).count() < 10.0);
}

TEST_CASE("A stream waits for what another has queued", "[device][stream]") {
  const Stream a(kDevice), b(kDevice);
  const Buffer source(4096, a), target(4096, a);
  {
    const StreamGuard guard(a);
    write(source, 3.0F);
  }
  b.wait(a);
  {
    const StreamGuard guard(b);
    memory::copy(target.data(), kDevice, source.data(), kDevice, 4096);
  }
  source.record_use(b);
  target.record_use(b);
  const StreamGuard guard(b);
  CHECK(read(target) == std::vector<float>(1024, 3.0F));
}

TEST_CASE("ST-1: memory that another stream still reads is not handed out", "[device][stream]") {
  constexpr int64_t kBytes = 1 << 16;
  const std::vector<float> ones(kBytes / sizeof(float), 1.0F);
  const Stream s1(kDevice), s2(kDevice);
  for (int repeat = 0; repeat < 50; ++repeat) {
    const Buffer result(kBytes, s2);
    {
      const StreamGuard on_s1(s1);
      const Buffer a(kBytes, s1);
      write(a, 1.0F);
      s2.wait(s1);
      const StreamGuard on_s2(s2);
      Tensor slow = full({512}, 1.0, DType::kFloat32, kDevice);
      for (int i = 0; i < 8; ++i) add_(slow, 1.0);
      memory::copy(result.data(), kDevice, a.data(), kDevice, kBytes);
      a.record_use(s2);
    }
    const StreamGuard on_s1(s1);
    const Buffer b(kBytes, s1);
    write(b, 7.0F);
    s1.synchronize();
    const StreamGuard on_s2(s2);
    if (read(result) != ones) FAIL("repeat " << repeat << ": memory was overwritten while in use");
  }
}

TEST_CASE("Memory outlives the stream that it was taken on", "[device][stream]") {
  Tensor kept;
  {
    const Stream stream(kDevice);
    const StreamGuard guard(stream);
    kept = full({100}, 5.0, DType::kFloat32, kDevice);
    stream.synchronize();
  }
  CHECK(kept.to_vector<float>() == std::vector<float>(100, 5.0F));
  kept = {};
  const Tensor next = full({100}, 6.0, DType::kFloat32, kDevice);
  CHECK(next.to_vector<float>() == std::vector<float>(100, 6.0F));
}

TEST_CASE("Buffers move", "[device][buffer]") {
  Buffer first(256, current_stream(kDevice));
  void* data = first.data();
  Buffer second(std::move(first));
  CHECK(second.data() == data);
  Buffer third;
  third = std::move(second);
  CHECK(third.data() == data);
  CHECK(third.bytes() == 256);
  CHECK(third.device() == kDevice);
  const Buffer on_cpu(128, current_stream(Device::cpu()));
  CHECK(on_cpu.device() == Device::cpu());
}

TEST_CASE("Pinned memory is kept and handed out again", "[device][pinned]") {
  void* first = nullptr;
  {
    PinnedBuffer buffer(10000);
    first = buffer.data();
    std::fill_n(buffer.as<char>(), 10000, 'a');
  }
  const PinnedBuffer again(9000);
  CHECK(again.data() == first);
  const PinnedBuffer other(9000);
  CHECK(other.data() != first);
}

TEST_CASE("Asynchronous copies read pinned memory until they are done", "[device][pinned]") {
  const Stream stream(kDevice);
  const StreamGuard guard(stream);
  const Tensor host = pinned(full({1000}, 2.0));
  Tensor there = to(host, kDevice, /*asynchronous=*/true);
  const Tensor back = to(there, Device::cpu(), /*asynchronous=*/true);
  stream.synchronize();
  CHECK(back.to_vector<float>() == host.to_vector<float>());
}

TEST_CASE("A DeviceGuard of the CPU changes nothing", "[device][stream]") {
  const DeviceGuard cpu(Device::cpu());
  const DeviceGuard cuda(kDevice);
  CHECK_THROWS_AS(DeviceGuard(Device{DeviceType::kCuda, 77}), Error);
  CHECK_THROWS_AS(Stream(Device{DeviceType::kCuda, 77}), Error);
  CHECK_THROWS_AS(Event(Device::cpu()), Error);
}

}  // namespace
}  // namespace heddle
