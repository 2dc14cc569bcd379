#include "heddle/nn/summary.h"

#include <algorithm>
#include <array>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"

namespace heddle {
namespace {

/// Puts a model into evaluation mode and every module of it back as it was.
class EvalMode {
 public:
  explicit EvalMode(Module& model) {
    for (const auto& [name, module] : model.named_modules())
      previous_.emplace_back(module, module->is_training());
    model.eval();
  }
  ~EvalMode() {
    for (const auto& [module, training] : previous_) module->train(training);  // outer ones first
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> previous_;
};

int64_t own_parameters(const Module& module) {
  int64_t count = 0;
  for (const auto& [name, tensor] : module.named_parameters())
    if (name.find('.') == std::string::npos) count += tensor.numel();
  return count;
}

/// 1234567 -> "1,234,567"
std::string with_commas(int64_t value) {
  std::string text = std::to_string(value);
  for (int64_t place = static_cast<int64_t>(text.size()) - 3; place > 0; place -= 3)
    text.insert(static_cast<size_t>(place), ",");
  return text;
}

/// 1234567 -> "1.23 M"
std::string with_unit(int64_t value) {
  constexpr std::array<const char*, 5> kUnits{"", " k", " M", " G", " T"};
  double rest = static_cast<double>(value);
  size_t unit = 0;
  for (; rest >= 1000.0 && unit + 1 < kUnits.size(); ++unit) rest /= 1000.0;
  return unit == 0 ? std::to_string(value) : fmt::format("{:.2f}{}", rest, kUnits[unit]);
}

using Row = std::array<std::string, 6>;

std::string table(const std::vector<Row>& rows) {
  std::array<size_t, 6> widths{};
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)  // texts to the left, numbers to the right
      line += i < 3 ? fmt::format("{:<{}}  ", row[i], widths[i])
                    : fmt::format("{:>{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::vector<LayerSummary> layer_summaries(Module& model, const Shape& input) {
  const NoGradGuard no_grad;
  const EvalMode eval(model);
  const std::vector<Tensor> parameters = model.parameters();
  const Tensor zeros_in = parameters.empty()
                              ? zeros(input)
                              : zeros(input, parameters[0].dtype(), parameters[0].device());
  std::vector<LayerSummary> rows;
  Tensor last;
  const ForwardHook hook(
      model, [&](const std::string& name, Module& module, const Tensor& x, const Tensor& y) {
        const bool is_leaf = module.named_modules().size() == 1;
        const bool is_new = !last.defined() || !y.is_same(last);
        if (!is_leaf && !is_new) return;
        rows.push_back({.name = name,
                        .description = module.describe(),
                        .output = y.shape(),
                        .parameters = own_parameters(module),
                        .flops = module.flops(x, y),
                        .activation_bytes = y.is_same(x) ? 0 : y.numel() * size_of(y.dtype())});
        last = y;
      });
  model(zeros_in);
  return rows;
}

std::string summarize(Module& model, const Shape& input) {
  std::vector<Row> rows{{"layer", "kind", "output", "parameters", "FLOP", "activation bytes"}};
  LayerSummary total;
  for (const LayerSummary& layer : layer_summaries(model, input)) {
    rows.push_back({layer.name.empty() ? "-" : layer.name, layer.description,
                    to_string(layer.output), with_commas(layer.parameters), with_unit(layer.flops),
                    with_unit(layer.activation_bytes)});
    total.flops += layer.flops;
    total.activation_bytes += layer.activation_bytes;
  }
  rows.push_back({"total", model.describe(), "", with_commas(model.parameter_count()),
                  with_unit(total.flops), with_unit(total.activation_bytes)});
  return fmt::format("{}input {}; FLOP of one forward pass, a multiply-add counted as two\n",
                     table(rows), input);
}

}  // namespace heddle
