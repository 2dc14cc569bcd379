#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/nn/module.h"

namespace heddle {

std::vector<std::string> model_names();  ///< "simple_cnn", "resnet18", "tiny_cnn"

/// A model by its name, with fresh initial values. Errors: UsageError listing the names.
std::unique_ptr<Module> make_model(std::string_view name, int64_t classes = 10);

}  // namespace heddle
