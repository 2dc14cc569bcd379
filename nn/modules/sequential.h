#pragma once

#include <memory>
#include <vector>

#include "heddle/nn/module.h"

namespace heddle {

/// Modules one after another, named "0", "1", ... : `Sequential net(Linear(8, 16), ReLU())`.
class Sequential : public Module {
 public:
  template <class... Modules>
  explicit Sequential(Modules... modules) {
    (push_back(std::move(modules)), ...);
  }
  Sequential(Sequential&&) = default;

  template <class M>
  M& push_back(M module) {
    M& added = add(std::to_string(modules_.size()), std::move(module));
    modules_.push_back(&added);
    return added;
  }
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "Sequential"; }
  int64_t size() const { return static_cast<int64_t>(modules_.size()); }

 private:
  std::vector<Module*> modules_;
};

}  // namespace heddle
