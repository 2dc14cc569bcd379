// A function of one's own with a gradient, checked against central differences in float64.
// docs/extending.md explains it.
#include <heddle/heddle.h>

#include <cmath>
#include <iostream>

namespace {

using heddle::Gradients;
using heddle::SavedTensor;
using heddle::Tensor;

/// log(1 + exp(x)). Grad: dx = dy sigmoid(x).
Tensor softplus(const Tensor& x) {
  Tensor y;
  {
    heddle::NoGradGuard no_grad;  // not recorded: the gradient is given below
    y = heddle::log(heddle::exp(x) + 1.0);
  }
  if (!heddle::needs_grad({x})) return y;
  heddle::record("softplus", y, {x}, [x = SavedTensor(x)](const Tensor& dy) -> Gradients {
    return {dy * heddle::sigmoid(x.get())};  // one for each input, in their order
  });
  return y;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    std::cerr << "example_function: \"" << argv[1] << "\" is not allowed, expected no arguments\n";
    return 2;
  }
  const std::vector<double> values{-2.0, 0.0, 0.5, 3.0};
  Tensor x = Tensor::from<double>(values, {4});
  x.set_requires_grad();
  heddle::sum(softplus(x)).backward();
  std::cout << "gradient of softplus: " << x.grad() << '\n';

  const double h = 1e-5;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = [&](double value) {
      return softplus(Tensor::from<double>({value}, {1})).item();
    };
    const double expected = (at(values[i] + h) - at(values[i] - h)) / (2 * h);
    if (std::abs(x.grad().to_vector<double>()[i] - expected) > 1e-8) {
      std::cout << "element " << i << " should be " << expected << '\n';
      return 1;
    }
  }
}
