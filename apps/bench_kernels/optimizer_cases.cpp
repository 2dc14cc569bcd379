// What the optimizer does to the parameters of SimpleCnn's first linear layer. In place, so that
// nothing is compared.
#include <fmt/format.h>

#include <memory>

#include "heddle/apps/bench_kernels/sides.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/optimizer.h"

namespace heddle::bench {
namespace {

constexpr int64_t kParametersAnImage = 128 * 1024;

/// Parameter, gradient and moments, as one slot whose address stays good.
std::shared_ptr<ParamSlot> make_slot(int64_t n, const Setting& setting, Prepared& prepared) {
  const DType dtype = DType::kFloat32;
  const auto slot = std::make_shared<ParamSlot>();
  *slot = {prepared.hold(random_input(n, dtype, setting)),
           prepared.hold(random_input(n, dtype, setting)),
           prepared.hold(random_input(n, dtype, setting)),
           prepared.hold(random_input(n, dtype, setting, 0.5F)),
           n,
           dtype,
           2};
  return slot;
}

template <class Add>
Case case_of(const char* name, int64_t n, int64_t bytes, const Add& add) {
  Case result;
  result.name = fmt::format("{}/{}/{}", name, n, DType::kFloat32);
  result.bytes = static_cast<double>(bytes * n);
  result.prepare = [=](const Setting& setting) {
    Prepared prepared;
    if (setting.reference) return prepared;
    const auto slot = make_slot(n, setting, prepared);
    add(prepared, setting, slot);
    // The side's arguments point at the slot.
    const Side side = prepared.sides.back();
    prepared.sides.back().run = [side, slot] { side.run(); };
    return prepared;
  };
  return result;
}

}  // namespace

std::vector<Case> optimizer_cases(const Scale& scale) {
  using Slot = std::shared_ptr<ParamSlot>;
  const int64_t n = scale.batch * kParametersAnImage;
  const auto sgd = [](Prepared& prepared, const Setting& setting, const Slot& slot) {
    const SgdArgs args{.slots = {slot.get(), 1}, .momentum = 0.9};
    HEDDLE_ADD_NATIVE(prepared, setting, sgd_step, args);
  };
  const auto adam = [](bool decoupled) {
    return [decoupled](Prepared& prepared, const Setting& setting, const Slot& slot) {
      const AdamArgs args{.slots = {slot.get(), 1}, .weight_decay = 0.01, .decoupled = decoupled};
      HEDDLE_ADD_NATIVE(prepared, setting, adam_step, args);
    };
  };
  const auto squares = [](Prepared& prepared, const Setting& setting, const Slot& slot) {
    void* const sum = prepared.hold(output(1, DType::kFloat64, setting));
    const GradientSquaresArgs args{.slots = {slot.get(), 1}, .sum = static_cast<double*>(sum)};
    HEDDLE_ADD_NATIVE(prepared, setting, gradient_squares, args);
  };
  return {case_of("sgd_momentum/step", n, 20, sgd), case_of("adam/step", n, 28, adam(false)),
          case_of("adamw/step", n, 28, adam(true)),
          case_of("gradient_squares/step", n, 4, squares)};
}

}  // namespace heddle::bench
