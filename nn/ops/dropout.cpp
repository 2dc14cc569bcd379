#include "heddle/kernels/dropout.h"

#include "heddle/core/capture_arena.h"
#include "heddle/core/tape.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/nn/ops.h"
#include "heddle/nn/ops/first_row.h"
#include "heddle/nn/ops/layout.h"

namespace heddle {
namespace {

thread_local int64_t first_row = 0;

constexpr int64_t kMaxElements = int64_t{1} << 34;  // draws of one random stream

Tensor dropout_backward(const Tensor& incoming, const Tensor& mask, double scale) {
  const Tensor dy = dense(incoming, format_of(mask));
  Tensor dx = Tensor::empty_like(dy);
  HEDDLE_DISPATCH(
      dy.device(), dropout_backward,
      {dy.dtype(), dy.numel(), scale, dx.raw_data(), dy.raw_data(), mask.data<uint8_t>()});
  return dx;
}

/// Where a captured step finds how far it is from the one that was captured.
const int64_t* steps_of_replay([[maybe_unused]] Device device) {
#ifdef HEDDLE_WITH_CUDA
  const CaptureArena* arena = CaptureArena::current(device);
  if (arena == nullptr) return nullptr;
  HEDDLE_CHECK(arena->steps() != nullptr,
               "dropout: its draws change from step to step, expected StepGraph::run with the "
               "number of the step");
  return arena->steps();
#else
  return nullptr;
#endif
}

}  // namespace

FirstRow::FirstRow(int64_t row) : previous_(first_row) { first_row = row; }
FirstRow::~FirstRow() { first_row = previous_; }

Tensor dropout(const Tensor& input, double probability, const Rng& rng, bool training) {
  HEDDLE_CHECK(is_floating(input.dtype()), "dropout: x is {}, expected a floating dtype",
               input.dtype());
  HEDDLE_CHECK(probability >= 0.0 && probability <= 1.0,
               "dropout: probability is {}, expected 0 to 1", probability);
  HEDDLE_CHECK(input.numel() <= kMaxElements, "dropout: x has {} elements, expected at most {}",
               input.numel(), kMaxElements);
  if (!training || probability == 0.0) return input;
  const Tensor x = dense(input);
  const bool image = format_of(x) == MemoryFormat::kChannelsLast;
  const double scale = probability == 1.0 ? 0.0 : 1.0 / (1.0 - probability);
  const bool records = needs_grad({input});
  const int64_t row_size = x.dim() > 0 && x.size(0) > 0 ? x.numel() / x.size(0) : 0;
  Tensor y = Tensor::empty_like(x);
  const Tensor mask = records ? Tensor::empty_like(x, DType::kUInt8) : Tensor();
  HEDDLE_DISPATCH(x.device(), dropout_forward,
                  {x.dtype(), image ? x.size(0) : 1, image ? x.size(1) : 1,
                   image ? x.size(2) * x.size(3) : x.numel(), static_cast<float>(probability),
                   scale, rng, y.raw_data(), records ? mask.data<uint8_t>() : nullptr, x.raw_data(),
                   first_row * row_size, steps_of_replay(x.device())});
  if (records) {
    record("dropout", y, {input}, [mask, scale](const Tensor& dy) {
      return Gradients{dropout_backward(dy, mask, scale)};
    });
  }
  return y;
}

}  // namespace heddle
