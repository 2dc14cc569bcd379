#include <fmt/format.h>

#include "heddle/apps/bench_kernels/cases.h"
#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/kernels/dispatch.h"

namespace heddle::bench {
namespace {

struct Layer {
  const char* name;
  int64_t in, out;
  bool relu;
};

constexpr Layer kLayers[] = {{"simple_cnn.fc1", 65536, 128, true},
                             {"simple_cnn.fc2", 128, 10, false},
                             {"resnet18.fc", 512, 10, false}};
constexpr int64_t kBatch = 64;

struct Buffers {
  std::shared_ptr<void> x, w, y, bias;
};

std::vector<Side> prepare(const LinearWork& work, Direction direction) {
  const auto& [dtype, rows, in, out, relu] = work;
  const Buffers b{random_buffer(rows * in, dtype), random_buffer(out * in, dtype),
                  random_buffer(rows * out, dtype), random_buffer(out, dtype)};
  std::vector<Side> sides;
  if (direction == Direction::kForward) {
    const LinearForwardArgs args{dtype,     rows,      in,           out, b.y.get(),
                                 b.x.get(), b.w.get(), b.bias.get(), relu};
    add_own_sides(args, HEDDLE_CPU_CANDIDATES(args, linear_forward), b, sides);
  } else if (direction == Direction::kData) {
    const LinearBackwardDataArgs args{dtype, rows, in, out, b.x.get(), b.y.get(), b.w.get()};
    add_own_sides(args, HEDDLE_CPU_CANDIDATES(args, linear_backward_data), b, sides);
  } else {
    const LinearBackwardWeightArgs args{dtype,     rows,         in,        out,
                                        b.w.get(), b.bias.get(), b.x.get(), b.y.get()};
    add_own_sides(args, HEDDLE_CPU_CANDIDATES(args, linear_backward_weight), b, sides);
  }
  add_raw_sides(work, direction, sides);
  return sides;
}

Case case_of(const Layer& layer, Direction direction, DType dtype) {
  const LinearWork work{dtype, kBatch, layer.in, layer.out, layer.relu};
  Case result;
  result.name = fmt::format("linear/{}/{}/{}", name_of(direction), layer.name, dtype);
  result.dtype = dtype;
  result.flops = 2.0 * static_cast<double>(kBatch * layer.in * layer.out);
  result.bytes = static_cast<double>(
      (kBatch * layer.in + layer.in * layer.out + kBatch * layer.out) * size_of(dtype));
  result.prepare = [work, direction] { return prepare(work, direction); };
  return result;
}

}  // namespace

std::vector<Case> linear_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    for (const Layer& layer : kLayers)
      for (const Direction direction : {Direction::kForward, Direction::kData, Direction::kWeight})
        cases.push_back(case_of(layer, direction, dtype));
  return cases;
}

}  // namespace heddle::bench
