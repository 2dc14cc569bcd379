#include "heddle/parallel/gather.h"

#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"

namespace heddle::test {

TEST_CASE("gather puts rows under each other, and leaves empty parts out") {
  const Tensor first = Tensor::from<float>({1, 2}, {1, 2});
  const Tensor last = Tensor::from<float>({3, 4, 5, 6}, {2, 2});
  const Tensor none = Tensor::empty({0, 2});
  const Tensor all = gather({Tensor(), first, none, last}, Device::cpu());
  CHECK(all.shape() == Shape{3, 2});
  CHECK(all.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(gather({none, last}, Device::cpu()).to_vector<float>() == last.to_vector<float>());
}

TEST_CASE("gather keeps the storage order of images") {
  Tensor part = Tensor::empty({2, 3, 4, 5}, DType::kFloat32, MemoryFormat::kChannelsLast);
  fill_(part, 1.0);
  const Tensor all = gather({part, part}, Device::cpu());
  CHECK(all.shape() == Shape{4, 3, 4, 5});
  CHECK(all.is_contiguous(MemoryFormat::kChannelsLast));
}

TEST_CASE("gather refuses parts that do not fit together") {
  const Tensor a = Tensor::from<float>({1, 2}, {1, 2}), b = Tensor::from<float>({1, 2, 3}, {1, 3});
  CHECK_THROWS_WITH(gather({Tensor(), Tensor()}, Device::cpu()),
                    ContainsSubstring("gather: 2 parts, expected one with rows"));
  CHECK_THROWS_WITH(gather({a, b}, Device::cpu()),
                    ContainsSubstring("gather: a part is (1, 3) beside (1, 2)"));
}

}  // namespace heddle::test
