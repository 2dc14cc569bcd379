#include "heddle/nn/state.h"

#include <algorithm>
#include <map>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"

namespace heddle {
namespace {

std::string joined(std::string_view what, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string text = fmt::format("; {} {}: {}", names.size(), what, names.front());
  for (size_t i = 1; i < names.size(); ++i) text += ", " + names[i];
  return text;
}

}  // namespace

void check_state(std::string_view op, const std::vector<StateSpec>& expected,
                 const NamedTensors& found) {
  std::map<std::string_view, const Tensor*> rest;
  std::vector<std::string> missing, unexpected, mismatching;
  for (const auto& [name, tensor] : found)
    if (!rest.emplace(name, &tensor).second) unexpected.push_back(name + " (twice)");
  for (const StateSpec& spec : expected) {
    const auto place = rest.find(spec.name);
    if (place == rest.end()) {
      missing.push_back(spec.name);
      continue;
    }
    const Tensor& tensor = *place->second;
    if (tensor.dtype() != spec.dtype || tensor.shape() != spec.shape)
      mismatching.push_back(fmt::format("{} is {} {}, expected {} {}", spec.name, tensor.dtype(),
                                        tensor.shape(), spec.dtype, spec.shape));
    rest.erase(place);
  }
  for (const auto& [name, tensor] : rest) unexpected.emplace_back(name);
  const std::string text = joined("missing", missing) + joined("unexpected", unexpected) +
                           joined("mismatching", mismatching);
  if (!text.empty()) fail("{}: the tensors do not fit{}", op, text);
}

void load_tensor(const Tensor& target, const Tensor& source) {
  const NoGradGuard no_grad;
  Tensor values = target.detach();
  copy_(values, reshape(source, target.shape()));
}

Tensor state_tensor(const Tensor& tensor) { return contiguous(tensor.detach()); }

}  // namespace heddle
