#include "heddle/apps/train_cifar/checkpoint.h"

#include <cstdio>
#include <map>

#include "heddle/apps/support/streams.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/provider.h"
#include "heddle/nn/ops.h"

namespace heddle::train_cifar {
namespace {

constexpr const char* kRecordKey = "heddle.train_cifar";
const std::string kModel = "model/";
const std::string kOptimizer = "optimizer/";

void check_finite(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors)
    if (is_floating(tensor.dtype()) && !all_finite(tensor))
      fail("the values of {} are not finite (NaN or Inf)", name);
}

NamedTensors under(const std::string& prefix, const NamedTensors& tensors) {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), tensor);
  return result;
}

/// The record in the metadata; null where the file is no checkpoint.
nlohmann::ordered_json record_of(const SafetensorsFile& file, const std::filesystem::path& path) {
  const auto found = file.metadata().find(kRecordKey);
  if (found == file.metadata().end()) return nullptr;
  auto record = nlohmann::ordered_json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  const bool complete = record.is_object() && record.contains("settings") &&
                        record["settings"].is_object() && record.contains("state");
  if (!complete) fail("{}: its record of the run cannot be read", path.string());
  return record;
}

std::map<std::string, std::string> provider_choices_of(const nlohmann::ordered_json& record) {
  std::map<std::string, std::string> choices;
  const auto found = record.find("provider_choices");
  if (found == record.end()) return choices;
  if (!found->is_object()) fail("provider_choices is no table");
  for (const auto& [key, choice] : found->items())
    choices[key] = choice.is_string() ? choice.get<std::string>() : choice.dump();
  return choices;
}

/// Runs `load` and puts the file's name in front of what it throws.
template <class Load>
void naming(const std::filesystem::path& path, Load load) {
  try {
    load();
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const Module& model,
                     const Optimizer& optimizer, const nlohmann::ordered_json& record) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : model.state()) tensors.emplace_back(kModel + name, tensor);
  for (const auto& [name, tensor] : optimizer.state())
    tensors.emplace_back(kOptimizer + name, tensor);
  check_finite(tensors);
  save_safetensors(path, tensors, {{kRecordKey, record.dump()}});
}

CheckpointFile::CheckpointFile(const std::filesystem::path& path)
    : path_(path), file_(path), record_(record_of(file_, path)) {
  if (record_.is_null())
    fail("{}: is no checkpoint of a run; weights alone are loaded with --init", path.string());
}

void CheckpointFile::restore_machine() const {
  int lost = 0;
  naming(path_, [&] { lost = set_provider_choices(provider_choices_of(record_)); });
  if (lost > 0)
    apps::print_error(
        "train_cifar",
        fmt::format("note: {} recorded choices of oneDNN cannot be had in this build; last bits "
                    "may differ",
                    lost));
  const std::string isa(cpu::name_of(cpu::active_isa()));
  const auto recorded = record_.find("isa");
  if (recorded != record_.end() && *recorded != isa)
    apps::print_error("train_cifar",
                      fmt::format("note: trained with {} so far, now with {}; last bits may differ",
                                  recorded->dump(), isa));
}

void CheckpointFile::restore(Module& model) const {
  naming(path_, [&] { model.load_state(under(kModel, file_.tensors())); });
}

void CheckpointFile::restore(Module& model, Optimizer& optimizer) const {
  const NamedTensors tensors = file_.tensors();
  naming(path_, [&] {
    model.check_state(under(kModel, tensors));
    optimizer.load_state(under(kOptimizer, tensors));
    model.load_state(under(kModel, tensors));
  });
}

void load_weights(Module& model, const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  const bool is_checkpoint = !record_of(file, path).is_null();
  naming(path,
         [&] { model.load_state(is_checkpoint ? under(kModel, file.tensors()) : file.tensors()); });
}

}  // namespace heddle::train_cifar
