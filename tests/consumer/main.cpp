#include <heddle/heddle.h>

#include <cstdio>

int main() {
  heddle::Tensor x = heddle::Tensor::from<float>({-1.0f, 2.0f}, {2});
  x.set_requires_grad();
  heddle::relu(x).backward(heddle::Tensor::from<float>({3.0f, 4.0f}, {2}));
  const auto gradient = x.grad().to_vector<float>();
  std::printf("heddle %s\n", std::string(heddle::version()).c_str());
  return gradient[0] == 0.0f && gradient[1] == 4.0f ? 0 : 1;
}
