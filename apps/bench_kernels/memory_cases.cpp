#include <fmt/format.h>

#include <cstring>

#include "heddle/apps/bench_kernels/cases.h"
#include "heddle/kernels/host/scratch.h"
#include "heddle/kernels/optimizer.h"
#include "heddle/kernels/unary.h"

namespace heddle::bench {
namespace {

constexpr int64_t kImages = 64 * 64 * 32 * 32;  // what SimpleCnn's second convolution gives
constexpr int64_t kParameters = 128 * 65536;    // of SimpleCnn's first linear layer

Case memory_case(const std::string& name, DType dtype, int64_t bytes,
                 std::function<std::vector<Side>()> prepare) {
  Case result;
  result.name = fmt::format("{}/{}", name, dtype);
  result.dtype = dtype;
  result.bytes = static_cast<double>(bytes);
  result.prepare = std::move(prepare);
  return result;
}

void add_relu(DType dtype, std::vector<Case>& cases) {
  const int64_t bytes = kImages * size_of(dtype);
  cases.push_back(memory_case("relu/forward/64x64x32x32", dtype, 2 * bytes, [dtype] {
    const auto x = random_buffer(kImages, dtype), y = random_buffer(kImages, dtype);
    return std::vector<Side>{
        {"native", [=] {
           cpu::unary_forward({y.get(), x.get(), kImages, dtype, UnaryOp::kRelu});
         }}};
  }));
  cases.push_back(memory_case("relu/data/64x64x32x32", dtype, 3 * bytes, [dtype] {
    const auto dx = random_buffer(kImages, dtype), dy = random_buffer(kImages, dtype);
    const auto y = random_buffer(kImages, dtype);
    return std::vector<Side>{
        {"native", [=] {
           cpu::unary_backward({dx.get(), dy.get(), y.get(), kImages, dtype, UnaryOp::kRelu});
         }}};
  }));
}

void add_adam(std::vector<Case>& cases) {
  const DType dtype = DType::kFloat32;
  cases.push_back(memory_case("adam/step/8388608", dtype, 28 * kParameters, [dtype] {
    struct State {
      std::shared_ptr<void> p, g, m, v;
      ParamSlot slot;
    };
    const auto state = std::make_shared<State>();
    for (auto* buffer : {&state->p, &state->g, &state->m, &state->v})
      *buffer = random_buffer(kParameters, dtype);
    std::memset(state->v.get(), 0, static_cast<size_t>(kParameters) * sizeof(float));
    state->slot = {
        state->p.get(), state->g.get(), state->m.get(), state->v.get(), kParameters, dtype, 2};
    return std::vector<Side>{{"native", [state] { cpu::adam_step({.slots = {&state->slot, 1}}); }}};
  }));
}

}  // namespace

std::shared_ptr<void> random_buffer(int64_t n, DType dtype) {
  const auto scratch = std::make_shared<cpu::Scratch>(n * size_of(dtype));
  dispatch_all(dtype, [&]<class T>() {
    T* const values = scratch->as<T>();
    uint32_t state = 1;
    for (int64_t i = 0; i < n; ++i) {
      state = state * 1664525U + 1013904223U;
      if constexpr (std::is_integral_v<T>) {
        values[i] = T(0);
      } else {
        values[i] = T(static_cast<float>(state >> 8) / 8388608.0F - 1.0F);
      }
    }
  });
  return {scratch, scratch->as<void>()};
}

std::vector<Case> memory_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) add_relu(dtype, cases);
  add_adam(cases);
  return cases;
}

}  // namespace heddle::bench
