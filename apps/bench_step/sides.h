#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/dtype.h"

namespace heddle::bench {

struct StepWork {
  std::string model;  ///< "simple_cnn" or "resnet18"
  int64_t batch = 64;
  DType dtype = DType::kFloat32;

  std::string name() const;
};

/// A whole training step (forward, loss, backward, Adam) that can be taken again and again.
struct StepSide {
  std::string name;
  std::function<void()> step;
  std::function<double()> loss;  ///< Of the last step.
};

inline constexpr const char* kOwnSide = "heddle";
inline constexpr const char* kRawInnerProduct = "raw_inner_product";
inline constexpr const char* kRawPlain = "raw_plain";

/// Heddle as a user has it: model, cross_entropy, backward, Adam.
StepSide own_side(const StepWork& work);

/// The names of the sides made of oneDNN's primitives that this build and processor have for it.
#ifdef HEDDLE_WITH_ONEDNN
std::vector<std::string> raw_side_names(const StepWork& work);
StepSide raw_side(const StepWork& work, const std::string& name);
void limit_onednn_to_active_isa();
bool onednn_has_bfloat16();
#else
inline std::vector<std::string> raw_side_names(const StepWork&) { return {}; }
inline StepSide raw_side(const StepWork&, const std::string&) { return {}; }
inline void limit_onednn_to_active_isa() {}
inline bool onednn_has_bfloat16() { return false; }
#endif

}  // namespace heddle::bench
