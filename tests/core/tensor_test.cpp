#include "heddle/core/tensor.h"

#include <cmath>
#include <sstream>

#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

TEST_CASE("Values go in and come out in logical order", "[tensor]") {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(x.to_vector<double>() == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(x.at({1, 2}) == 6.0);
  CHECK(x.size(-1) == 3);

  Tensor image = Tensor::empty({1, 2, 2, 2}, DType::kFloat32, MemoryFormat::kChannelsLast);
  image.assign<float>({0, 1, 2, 3, 10, 11, 12, 13});
  CHECK(image.to_vector<float>() == std::vector<float>{0, 1, 2, 3, 10, 11, 12, 13});
  const float* stored = image.data<float>();
  CHECK(std::vector<float>(stored, stored + 8) == std::vector<float>{0, 10, 1, 11, 2, 12, 3, 13});
  CHECK(image.is_contiguous(MemoryFormat::kChannelsLast));
  CHECK_FALSE(image.is_contiguous());
}

TEST_CASE("A strided view reads through strides and offset", "[tensor]") {
  const Tensor base = Tensor::from<int64_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {10});
  const Tensor view = base.as_strided({2, 2}, {1, 2}, 1);
  CHECK(view.to_vector<int64_t>() == std::vector<int64_t>{1, 3, 2, 4});
  const Tensor backwards = base.as_strided({3}, {-1}, 9);
  CHECK(backwards.to_vector<int64_t>() == std::vector<int64_t>{9, 8, 7});
  CHECK(view.storage() == base.storage());
  CHECK_THROWS_WITH(base.as_strided({2}, {9}, 1), ContainsSubstring("reach elements 1 to 11 of a "
                                                                    "storage of 10"));
  CHECK_THROWS_WITH(base.as_strided({2}, {-1}, 0), ContainsSubstring("reach elements -1"));
}

TEST_CASE("Wrong use of a tensor is named", "[tensor]") {
  const Tensor x = Tensor::from<float>({1, 2}, {2});
  CHECK_THROWS_WITH(Tensor().shape(), ContainsSubstring("before it was given a value"));
  CHECK_THROWS_WITH(x.data<double>(), ContainsSubstring("are float32, asked for as float64"));
  CHECK_THROWS_WITH(x.item(), ContainsSubstring("expected one element"));
  CHECK_THROWS_WITH(x.at({2}), ContainsSubstring("index (2) into shape (2)"));
  CHECK_THROWS_WITH(x.at({0, 0}), ContainsSubstring("index (0, 0)"));
  CHECK_THROWS_WITH(Tensor::from<float>({1, 2, 3}, {2}), ContainsSubstring("3 values"));
  CHECK_THROWS_WITH(Tensor::empty({int64_t{1} << 62}), ContainsSubstring("2^63 bytes"));
}

TEST_CASE("16-bit elements convert on the way in and out", "[tensor]") {
  const Tensor half = Tensor::from<Float16>({Float16(0.5F), Float16(-2.0F)}, {2});
  CHECK(half.to_vector<double>() == std::vector<double>{0.5, -2.0});
  Tensor brain = Tensor::empty({1}, DType::kBFloat16);
  brain.assign<double>({1.00390625});  // halfway: to even
  CHECK(brain.item() == 1.0);
}

TEST_CASE("Aliases share the count of in-place writes", "[tensor]") {
  Tensor x = Tensor::from<float>({1, 2}, {2});
  const Tensor alias = x.detach();
  const int64_t before = alias.version();
  x.assign<float>({3, 4});
  CHECK(alias.version() == before + 1);
  CHECK(alias.at({1}) == 4.0);
}

TEST_CASE("Tensors print for people", "[tensor]") {
  CHECK(Tensor().to_string() == "tensor(undefined)");
  CHECK(Tensor::from<float>({1, -2.5F, 3, 4}, {2, 2}).to_string() ==
        "tensor([[ 1.0000, -2.5000],\n"
        "        [ 3.0000,  4.0000]], shape=(2, 2), dtype=float32)");
  CHECK(Tensor::from<float>({1, 200}, {2}).to_string() ==
        "tensor([  1., 200.], shape=(2), dtype=float32)");
  CHECK(Tensor::from<int64_t>({7}, {}).to_string() == "tensor(7, shape=(), dtype=int64)");
  CHECK(Tensor::from<float>({NAN, INFINITY}, {2}).to_string() ==
        "tensor([nan, inf], shape=(2), dtype=float32)");
  CHECK(Tensor::from<float>({1e-8F, 1}, {2}).to_string() ==
        "tensor([1.0000e-08, 1.0000e+00], shape=(2), dtype=float32)");
  CHECK(Tensor::empty({0, 3}).to_string() == "tensor([], shape=(0, 3), dtype=float32)");
  const Tensor large = Tensor::from(std::vector<uint8_t>(2000, 3), {2000});
  CHECK(large.to_string() == "tensor([3, 3, 3, ..., 3, 3, 3], shape=(2000), dtype=uint8)");
  std::ostringstream out;
  out << Tensor::from<uint8_t>({1}, {1});
  CHECK(out.str() == "tensor([1], shape=(1), dtype=uint8)");
}

TEST_CASE("Memory of another owner is held as long as the tensor", "[tensor]") {
  auto owner = std::make_shared<std::vector<float>>(4, 2.0F);
  std::weak_ptr<std::vector<float>> watch = owner;
  auto* data = owner->data();
  Tensor x = Tensor::from_storage(
      std::make_shared<Storage>(Device::cpu(), data, 16, std::shared_ptr<void>(std::move(owner))),
      {4}, {1}, 0, DType::kFloat32);
  CHECK_FALSE(watch.expired());
  CHECK(x.at({3}) == 2.0);
  x = Tensor();
  CHECK(watch.expired());
}

}  // namespace
}  // namespace heddle
