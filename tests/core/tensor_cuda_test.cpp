// Tensors of a CUDA device: copies of every kind, reading, printing, and errors.
#include "heddle/core/tensor.h"

#include "heddle/core/memory_label.h"
#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

const Device kDevice{DeviceType::kCuda, 0};

Tensor counting(const Shape& shape) {
  return reshape(to(arange(numel(shape)), DType::kFloat32), shape);
}

TEST_CASE("Tensors go to a device and back", "[device][tensor]") {
  const Tensor x = counting({2, 3, 4, 5});
  const Tensor there = to(x, kDevice);
  CHECK(there.device() == kDevice);
  CHECK(there.is_contiguous());
  CHECK(to(there, kDevice).is_same(there));
  const Tensor back = to(there, Device::cpu());
  CHECK(back.device() == Device::cpu());
  CHECK(back.to_vector<float>() == x.to_vector<float>());
  CHECK(there.to_vector<float>() == x.to_vector<float>());
}

TEST_CASE("Storage order and dtype stay on the way", "[device][tensor]") {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16,
                            DType::kUInt8, DType::kInt64}) {
    INFO(name_of(dtype));
    const Tensor x = contiguous(to(counting({2, 3, 2, 2}), dtype), MemoryFormat::kChannelsLast);
    const Tensor there = to(x, kDevice);
    CHECK(there.is_contiguous(MemoryFormat::kChannelsLast));
    CHECK(name_of(there.dtype()) == name_of(dtype));
    CHECK(there.to_vector<double>() == x.to_vector<double>());
  }
}

TEST_CASE("Views go right: transposed, narrowed, expanded, empty", "[device][tensor]") {
  const Tensor x = counting({6, 8});
  const Tensor there = to(x, kDevice);
  auto check = [&](auto view) {
    CHECK(view(there).template to_vector<float>() == view(x).template to_vector<float>());
    CHECK(to(view(there), Device::cpu()).template to_vector<float>() ==
          view(x).template to_vector<float>());
    CHECK(to(view(x), kDevice).template to_vector<float>() == view(x).template to_vector<float>());
  };
  check([](const Tensor& t) { return transpose(t, 0, 1); });
  check([](const Tensor& t) { return narrow(narrow(t, 0, 1, 3), 1, 2, 4); });
  check([](const Tensor& t) { return expand(narrow(t, 0, 2, 1), {5, 8}); });
  check([](const Tensor& t) { return narrow(t, 0, 3, 0); });
}

TEST_CASE("copy_ converts, broadcasts and crosses devices", "[device][tensor]") {
  Tensor target = full({3, 4}, 9.0, DType::kFloat16, kDevice);
  Tensor middle = narrow(target, 1, 1, 2);
  copy_(middle, Tensor::from<float>({1, 2}, {2}));
  CHECK(target.to_vector<float>() == std::vector<float>{9, 1, 2, 9, 9, 1, 2, 9, 9, 1, 2, 9});
  Tensor here = zeros({3, 4});
  copy_(here, target);
  CHECK(here.to_vector<float>() == target.to_vector<float>());
}

TEST_CASE("Elements of a device's tensor are read and written", "[device][tensor]") {
  Tensor x = to(counting({3, 4}), kDevice);
  CHECK(x.at({1, 2}) == 6.0);
  CHECK(narrow(narrow(x, 0, 2, 1), 1, 3, 1).item() == 11.0);
  CHECK_THROWS_WITH(x.item(), ContainsSubstring("expected one element"));
  const int64_t version = x.version();
  Tensor column = narrow(x, 1, 0, 1);
  column.assign(std::vector<float>{-1, -2, -3});
  CHECK(x.version() > version);
  CHECK(x.to_vector<float>() == std::vector<float>{-1, 1, 2, 3, -2, 5, 6, 7, -3, 9, 10, 11});
  CHECK_THAT(x.to_string(), ContainsSubstring("device=cuda:0"));
  CHECK_THAT(x.to_string(), ContainsSubstring("-3"));
}

TEST_CASE("Gradients cross devices", "[device][tensor]") {
  Tensor x = counting({4});
  x.set_requires_grad();
  const Tensor y = to(x, kDevice);
  mul(y, 2.0).backward(ones({4}, DType::kFloat32, kDevice));
  CHECK(x.grad().device() == Device::cpu());
  CHECK(x.grad().to_vector<float>() == std::vector<float>(4, 2.0F));

  Tensor w = to(counting({4}), kDevice);
  w.set_requires_grad();
  to(w, Device::cpu()).backward(ones({4}));
  CHECK(w.grad().device() == kDevice);
  CHECK_THROWS_WITH(w.set_grad(zeros({4})), ContainsSubstring("gradient is on cpu"));
}

TEST_CASE("Tensors on two devices in one op are refused", "[device][tensor]") {
  const Tensor here = ones({2, 2});
  const Tensor there = ones({2, 2}, DType::kFloat32, kDevice);
  auto check = [](const auto& run) {
    CHECK_THROWS_WITH(run(), ContainsSubstring("cpu") && ContainsSubstring("cuda:0"));
  };
  Tensor target = ones({2, 2}, DType::kFloat32, kDevice);
  check([&] { add(here, there); });
  check([&] { div(there, here); });
  check([&] { lt(here, there); });
  check([&] { add_(target, here); });
  check([&] { mul_(target, here); });
  check([&] { matmul(here, there); });
  check([&] { linear(there, here, {}); });
  check([&] { cross_entropy(there, zeros({2}, DType::kInt64)); });
}

TEST_CASE("Memory of a device is counted", "[device][memory]") {
  const int64_t before = memory::stats(kDevice).in_use;
  {
    const Tensor x = zeros({1 << 16}, DType::kFloat32, kDevice);
    const MemoryStats now = memory::stats(kDevice);
    CHECK(now.in_use - before == 1 << 18);
    CHECK(now.held >= now.in_use);
    CHECK(now.peak_in_use >= now.in_use);
  }
  CHECK(memory::stats(kDevice).in_use == before);
  memory::reset_peak(kDevice);
  CHECK(memory::stats(kDevice).peak_in_use == before);
  synchronize(kDevice);
  memory::release_cached(kDevice);
  // A step that is repeated takes nothing more from the device.
  for (int i = 0; i < 3; ++i) (void)zeros({1 << 16}, DType::kFloat32, kDevice);
  const int64_t calls = memory::stats(kDevice).system_calls;
  for (int i = 0; i < 10; ++i) (void)zeros({1 << 16}, DType::kFloat32, kDevice);
  CHECK(memory::stats(kDevice).system_calls == calls);
}

TEST_CASE("An impossible allocation names its size and the largest tensors", "[device][memory]") {
  Tensor large;
  {
    const MemoryLabel label("layer1.0.conv1.weight");
    large = zeros({1 << 18}, DType::kFloat32, kDevice);
  }
  const MemoryLabel label("fc");
  const Shape huge{int64_t{1} << 46};
  for (int attempt = 0; attempt < 2; ++attempt)
    CHECK_THROWS_WITH(Tensor::empty(huge, DType::kFloat32, MemoryFormat::kContiguous, kDevice),
                      ContainsSubstring("cuda:0 has no 268435456.0 MiB left for fc") &&
                          ContainsSubstring("in use") && ContainsSubstring("kept in the pool") &&
                          ContainsSubstring(" free") && !ContainsSubstring(".cpp") &&
                          ContainsSubstring("1.0 MiB layer1.0.conv1.weight"));
  // Nothing is lost: work goes on.
  CHECK(add(large, 1.0).at({77}) == 1.0);
  CHECK_THROWS_AS(Tensor::empty(huge, DType::kFloat32, MemoryFormat::kContiguous, kDevice),
                  OutOfMemory);
}

}  // namespace
}  // namespace heddle
