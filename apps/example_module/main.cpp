// A module of one's own, trained to copy a function, saved and loaded. docs/extending.md explains
// it.
#include <heddle/heddle.h>

#include <iostream>

namespace {

using heddle::Linear;
using heddle::Tensor;

class Residual : public heddle::Module {
 public:
  explicit Residual(int64_t width)
      : fc1(add("fc1", Linear(width, width))),
        fc2(add("fc2", Linear(width, width))),
        scale(add_parameter("scale", heddle::ones({1}))) {}

  Tensor forward(const Tensor& x) override { return x + scale * fc2(heddle::relu(fc1(x))); }
  std::string describe() const override { return "Residual"; }

  Linear& fc1;
  Linear& fc2;
  Tensor& scale;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    std::cerr << "example_module: \"" << argv[1] << "\" is not allowed, expected no arguments\n";
    return 2;
  }
  heddle::manual_seed(1);
  heddle::Sequential net(Linear(2, 16), Residual(16), Linear(16, 1));
  for (const auto& [name, tensor] : net.state()) {
    std::cout << name << ' ' << heddle::to_string(tensor.shape()) << '\n';
  }

  heddle::Adam adam(net.parameters(), {.lr = 1e-2});
  const Tensor x = heddle::rand({256, 2}, heddle::Rng(2, heddle::RngPurpose::kUser), -1.0, 1.0);
  const Tensor target = heddle::narrow(x, 1, 0, 1) * heddle::narrow(x, 1, 1, 1);
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    adam.zero_grad();
    const Tensor error = net(x) - target;
    const Tensor loss = heddle::mean(error * error);
    loss.backward();
    adam.step();
    last = loss.item();
    if (step == 0) first = last;
  }
  std::cout << "mean squared error " << first << " -> " << last << '\n';
  return last < first / 10 ? 0 : 1;
}
