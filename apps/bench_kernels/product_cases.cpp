// Linear layers and plain matrix products.
#include <fmt/format.h>

#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/bench_kernels/sides.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/matmul.h"

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
constexpr int64_t kMatrix = 1024;  // rows and columns of the matrices of a plain product

Prepared prepare(const LinearWork& work, Direction direction, const Setting& setting) {
  const auto [dtype, rows, in, out, relu] = work;
  const DType kept = setting.dtype_of(dtype);
  const Tensor x = random_input(rows * in, dtype, setting);
  const Tensor w = random_input(out * in, dtype, setting);
  const Tensor y = random_input(rows * out, dtype, setting);
  Prepared prepared;
  void* const px = prepared.hold(x);
  void* const pw = prepared.hold(w);
  void* const py = prepared.hold(y);
  void* const bias = prepared.hold(random_input(out, dtype, setting));
  if (direction == Direction::kForward) {
    const LinearForwardArgs args{kept, rows, in, out, py, px, pw, bias, relu};
    HEDDLE_ADD_ALL_SIDES(prepared, setting, linear_forward, args, cublas);
    prepared.result = y;
  } else if (direction == Direction::kData) {
    const LinearBackwardDataArgs args{kept, rows, in, out, px, py, pw};
    HEDDLE_ADD_ALL_SIDES(prepared, setting, linear_backward_data, args, cublas);
    prepared.result = x;
  } else {
    const LinearBackwardWeightArgs args{kept, rows, in, out, pw, bias, px, py};
    HEDDLE_ADD_ALL_SIDES(prepared, setting, linear_backward_weight, args, cublas);
    prepared.result = w;
  }
  if (setting.beside_onednn()) add_raw_sides(work, direction, prepared.sides);
  return prepared;
}

Case linear_case(const Layer& layer, Direction direction, DType dtype, int64_t batch) {
  const LinearWork work{dtype, batch, layer.in, layer.out, layer.relu};
  Case result;
  result.name = fmt::format("linear/{}/{}/{}", name_of(direction), layer.name, dtype);
  result.dtype = dtype;
  result.flops = 2.0 * static_cast<double>(batch * layer.in * layer.out);
  result.bytes = static_cast<double>((batch * layer.in + layer.in * layer.out + batch * layer.out) *
                                     size_of(dtype));
  result.prepare = [work, direction](const Setting& s) { return prepare(work, direction, s); };
  return result;
}

Case matmul_case(DType dtype, int64_t n) {
  Case result;
  result.name = fmt::format("matmul/forward/{}x{}x{}/{}", n, n, n, dtype);
  result.dtype = dtype;
  result.flops = 2.0 * static_cast<double>(n * n * n);
  result.bytes = static_cast<double>(3 * n * n * size_of(dtype));
  result.prepare = [=](const Setting& setting) {
    Prepared prepared;
    prepared.result = output(n * n, dtype, setting);
    const MatmulArgs args{setting.dtype_of(dtype),
                          1,
                          n,
                          n,
                          n,
                          prepared.hold(prepared.result),
                          prepared.hold(random_input(n * n, dtype, setting)),
                          n * n,
                          n,
                          1,
                          prepared.hold(random_input(n * n, dtype, setting)),
                          n * n,
                          n,
                          1};
    HEDDLE_ADD_NATIVE(prepared, setting, matmul, args);
    HEDDLE_ADD_CUDA_VENDOR(prepared, setting, matmul, args, cublas);
    if (setting.beside_onednn()) add_raw_matmul(dtype, n, prepared.sides);
    return prepared;
  };
  return result;
}

}  // namespace

std::vector<Case> product_cases(const Scale& scale) {
  std::vector<Case> cases;
  for (const DType dtype : scale.dtypes) {
    for (const Layer& layer : kLayers)
      for (const Direction direction : {Direction::kForward, Direction::kData, Direction::kWeight})
        cases.push_back(linear_case(layer, direction, dtype, scale.batch));
    cases.push_back(matmul_case(dtype, kMatrix * scale.batch / 64));
  }
  return cases;
}

}  // namespace heddle::bench
