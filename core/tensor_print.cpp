// Printing of tensors for people: nested brackets, numbers in columns, the middle of large ones
// left out.
#include <algorithm>
#include <cmath>
#include <ostream>

#include "heddle/core/tensor.h"
#include "heddle/core/tensor_impl.h"

namespace heddle {
namespace {

constexpr int64_t kSummariseAbove = 1000;  // elements
constexpr int64_t kEdge = 3;               // shown at each end of a summarised dimension

/// The indices of one dimension that are shown; -1 stands for the gap.
std::vector<int64_t> shown(int64_t size, bool summarise) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < size; ++i) {
    if (summarise && size > 2 * kEdge && i == kEdge) {
      indices.push_back(-1);
      i = size - kEdge;
    }
    indices.push_back(i);
  }
  return indices;
}

class Printer {
 public:
  explicit Printer(const Tensor& tensor)
      : tensor_(tensor), summarise_(tensor.numel() > kSummariseAbove) {
    Dims index = Dims::filled(tensor.dim(), 0);
    visit(0, index, [&](double value) { look_at(value); });
    choose_format();
  }

  std::string text() {
    Dims index = Dims::filled(tensor_.dim(), 0);
    append(0, index);
    return std::move(out_);
  }

 private:
  template <class Body>
  void visit(int dim, Dims& index, const Body& body) {
    if (dim == tensor_.dim()) return body(tensor_.at(index));
    for (const int64_t i : shown(tensor_.shape()[dim], summarise_)) {
      if (i < 0) continue;
      index[dim] = i;
      visit(dim + 1, index, body);
    }
  }

  void look_at(double value) {
    if (!std::isfinite(value)) return;
    integral_ = integral_ && value == std::floor(value);
    largest_ = std::max(largest_, std::abs(value));
    if (value != 0) smallest_ = std::min(smallest_, std::abs(value));
  }

  void choose_format() {
    scientific_ = is_floating(tensor_.dtype()) &&
                  (largest_ >= 1e6 || (smallest_ < 1e-4 && largest_ > 0 && !integral_) ||
                   (largest_ > 0 && !integral_ && largest_ / smallest_ > 1e6));
    Dims index = Dims::filled(tensor_.dim(), 0);
    visit(0, index, [&](double value) { width_ = std::max(width_, number(value).size()); });
  }

  std::string number(double value) const {
    if (!is_floating(tensor_.dtype())) return fmt::format("{:.0f}", value);
    if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    if (scientific_) return fmt::format("{:.4e}", value);
    return integral_ ? fmt::format("{:.0f}.", value) : fmt::format("{:.4f}", value);
  }

  void append(int dim, Dims& index) {
    if (dim == tensor_.dim()) {
      out_ += fmt::format("{:>{}}", number(tensor_.at(index)), width_);
      return;
    }
    const bool innermost = dim + 1 == tensor_.dim();
    out_ += '[';
    bool first = true;
    for (const int64_t i : shown(tensor_.shape()[dim], summarise_)) {
      if (!first) out_ += innermost ? ", " : ",\n" + std::string(static_cast<size_t>(dim) + 8, ' ');
      first = false;
      if (i < 0) {
        out_ += "...";
      } else {
        index[dim] = i;
        append(dim + 1, index);
      }
    }
    out_ += ']';
  }

  const Tensor& tensor_;
  bool summarise_;
  bool integral_ = true;
  bool scientific_ = false;
  double largest_ = 0;
  double smallest_ = INFINITY;
  size_t width_ = 0;
  std::string out_;
};

}  // namespace

std::string Tensor::to_string() const {
  if (!defined()) return "tensor(undefined)";
  const Tensor here = host_copy(*this);
  const std::string place =
      device().type == DeviceType::kCpu ? "" : fmt::format(", device={}", device().to_string());
  return fmt::format("tensor({}, shape={}, dtype={}{}{})", Printer(here).text(), shape(), dtype(),
                     place, requires_grad() ? ", requires_grad" : "");
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.to_string();
}

}  // namespace heddle
