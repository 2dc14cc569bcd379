#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/nn/module.h"

namespace heddle::lab {

/// "small_cnn" and "small_resnet", which also run on virtual devices while one waits, and the
/// models of nn/models.
std::vector<std::string> lab_model_names();
std::unique_ptr<Module> make_lab_model(std::string_view name);

/// Of n images: (n, 3, 8, 8) for the small ones, else (n, 3, 32, 32).
Shape batch_shape(std::string_view model_name, int64_t n);

}  // namespace heddle::lab
