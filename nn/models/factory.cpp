#include "heddle/nn/models/factory.h"

#include "heddle/nn/models/resnet18.h"
#include "heddle/nn/models/simple_cnn.h"
#include "heddle/nn/models/tiny_cnn.h"

namespace heddle {

std::vector<std::string> model_names() { return {"simple_cnn", "resnet18", "tiny_cnn"}; }

std::unique_ptr<Module> make_model(std::string_view name, int64_t classes) {
  if (name == "simple_cnn") return std::make_unique<SimpleCnn>(classes);
  if (name == "resnet18") return std::make_unique<ResNet18>(classes);
  if (name == "tiny_cnn") return std::make_unique<TinyCnn>(classes);
  std::string names;
  for (const std::string& known : model_names()) names += (names.empty() ? "" : ", ") + known;
  throw UsageError(fmt::format("model: found \"{}\", expected one of {}", name, names));
}

}  // namespace heddle
