// What memory bounds and oneDNN has no primitive for, or none that compares.
#include <fmt/format.h>

#include <cstring>

#include "heddle/apps/bench_kernels/cases.h"
#include "heddle/kernels/binary.h"
#include "heddle/kernels/cross_entropy.h"
#include "heddle/kernels/host/scratch.h"
#include "heddle/kernels/optimizer.h"

namespace heddle::bench {
namespace {

using Buffer = std::shared_ptr<void>;

constexpr int64_t kImages = 64 * 64 * 32 * 32;  // what SimpleCnn's second convolution gives
constexpr int64_t kParameters = 128 * 65536;    // of SimpleCnn's first linear layer
constexpr int64_t kRows = 4096, kClasses = 1000;

Case memory_case(const std::string& name, DType dtype, int64_t bytes,
                 std::function<Side()> prepare) {
  Case result;
  result.name = fmt::format("{}/{}", name, dtype);
  result.dtype = dtype;
  result.bytes = static_cast<double>(bytes);
  result.prepare = [prepare = std::move(prepare)] { return std::vector<Side>{prepare()}; };
  return result;
}

/// The sum of a residual block.
Side add_side(DType dtype) {
  const Buffer a = random_buffer(kImages, dtype), b = random_buffer(kImages, dtype);
  const Buffer y = random_buffer(kImages, dtype);
  const auto view = [dtype](const Buffer& buffer) {
    return View{buffer.get(), dtype, {kImages}, {1}};
  };
  return {"native", [=] { cpu::binary({view(y), view(a), view(b), BinaryOp::kAdd}); }};
}

Side cross_entropy_side(DType dtype, bool forward) {
  const Buffer logits = random_buffer(kRows * kClasses, dtype);
  const Buffer labels = random_buffer(kRows, DType::kInt64);
  const Buffer stats = random_buffer(kRows * 2, DType::kFloat32);
  const CrossEntropyProblem problem{dtype, kRows, kClasses, logits.get(),
                                    static_cast<const int64_t*>(labels.get())};
  if (forward) {
    const auto sum = std::make_shared<double>();
    return {"native", [=, held = std::vector{logits, labels}] {
              cpu::cross_entropy_forward({problem, nullptr, stats.get(), sum.get()});
            }};
  }
  const Buffer dlogits = random_buffer(kRows * kClasses, dtype), dy = random_buffer(1, dtype);
  return {"native", [=, held = std::vector{logits, labels}] {
            cpu::cross_entropy_backward(
                {problem, dlogits.get(), stats.get(), dy.get(), 0, 1.0 / kRows});
          }};
}

struct Trained {
  Buffer p, g, m, v;
  ParamSlot slot;
};

std::shared_ptr<Trained> trained() {
  const auto state = std::make_shared<Trained>();
  for (auto* buffer : {&state->p, &state->g, &state->m, &state->v})
    *buffer = random_buffer(kParameters, DType::kFloat32);
  std::memset(state->v.get(), 0, static_cast<size_t>(kParameters) * sizeof(float));
  state->slot = {state->p.get(),
                 state->g.get(),
                 state->m.get(),
                 state->v.get(),
                 kParameters,
                 DType::kFloat32,
                 2};
  return state;
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
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const int64_t size = size_of(dtype), logits = kRows * kClasses * size;
    cases.push_back(memory_case("add/forward/64x64x32x32", dtype, 3 * kImages * size,
                                [dtype] { return add_side(dtype); }));
    cases.push_back(memory_case("cross_entropy/forward/4096x1000", dtype, logits,
                                [dtype] { return cross_entropy_side(dtype, true); }));
    cases.push_back(memory_case("cross_entropy/data/4096x1000", dtype, 2 * logits,
                                [dtype] { return cross_entropy_side(dtype, false); }));
  }
  cases.push_back(memory_case("adam/step/8388608", DType::kFloat32, 28 * kParameters, [] {
    const auto state = trained();
    return Side{"native", [state] { cpu::adam_step({.slots = {&state->slot, 1}}); }};
  }));
  cases.push_back(memory_case("sgd_momentum/step/8388608", DType::kFloat32, 20 * kParameters, [] {
    const auto state = trained();
    return Side{"native", [state] {
                  cpu::sgd_step({.slots = {&state->slot, 1}, .momentum = 0.9});
                }};
  }));
  return cases;
}

}  // namespace heddle::bench
