#include "heddle/nn/modules/dropout.h"

#include "heddle/nn/ops.h"

namespace heddle {

Dropout::Dropout(double probability)
    : probability_(probability), seed_(initial_seed()), layer_(next_init_stream().next()) {
  HEDDLE_CHECK(probability >= 0.0 && probability <= 1.0,
               "Dropout: probability is {}, expected 0 to 1", probability);
}

Tensor Dropout::forward(const Tensor& x) {
  if (!is_training() || probability_ == 0.0) return x;
  const Rng rng(seed_, RngPurpose::kDropout, static_cast<uint64_t>(step_++), layer_);
  return dropout(x, probability_, rng, true);
}

void Dropout::on_copy(const Module& source) {
  const auto& other = dynamic_cast<const Dropout&>(source);
  probability_ = other.probability_;
  seed_ = other.seed_;
  layer_ = other.layer_;
  step_ = other.step_;
}

std::string Dropout::describe() const { return fmt::format("Dropout({})", probability_); }

}  // namespace heddle
