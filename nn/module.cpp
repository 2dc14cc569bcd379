#include "heddle/nn/module.h"

#include <algorithm>
#include <typeinfo>

#include "heddle/core/memory_label.h"
#include "heddle/core/tape.h"
#include "heddle/core/trace.h"
#include "heddle/nn/ops.h"

namespace heddle {

struct Module::NamedEntry {
  std::string name;  // full
  const Entry* entry;
};

Tensor Module::operator()(const Tensor& x) {
  const MemoryLabel label(path_.empty() ? MemoryLabel::current() : path_);
  const TraceSpan span(path_.empty() ? "model" : path_, "module");
  Tensor y = forward(x);
  if (hook_ != nullptr) (*hook_)(*this, x, y);
  return y;
}

void Module::check_name(const std::string& name) const {
  HEDDLE_CHECK(!name.empty() && name.find_first_of("./") == std::string::npos,
               "module: the name \"{}\" is empty or has a dot or slash", name);
  bool taken = false;
  for (const Entry& entry : entries_) taken |= entry.name == name;
  for (const Child& child : children_) taken |= child.name == name;
  HEDDLE_CHECK(!taken, "module: the name \"{}\" is there twice", name);
}

Tensor& Module::add_parameter(const std::string& name, Tensor value, const Shape& state_shape) {
  check_name(name);
  HEDDLE_CHECK(numel(state_shape) == value.numel(),
               "module: parameter \"{}\" of shape {} cannot be {} in a state", name, value.shape(),
               state_shape);
  value.set_requires_grad();
  value.set_name(name);
  return entries_.emplace_back(Entry{name, std::move(value), state_shape, true}).tensor;
}

Tensor& Module::add_parameter(const std::string& name, Tensor value) {
  const Shape shape = value.shape();
  return add_parameter(name, std::move(value), shape);
}

Tensor& Module::add_buffer(const std::string& name, Tensor value) {
  check_name(name);
  value.set_name(name);
  const Shape shape = value.shape();
  return entries_.emplace_back(Entry{name, std::move(value), shape, false}).tensor;
}

void Module::add_child(const std::string& name, std::unique_ptr<Module> module) {
  check_name(name);
  module->add_prefix(name + ".");
  children_.push_back({name, std::move(module)});
}

void Module::add_prefix(const std::string& prefix) {
  path_ = path_.empty() ? prefix.substr(0, prefix.size() - 1) : prefix + path_;
  for (const Entry& entry : entries_) entry.tensor.set_name(prefix + entry.tensor.name());
  for (const Child& child : children_) child.module->add_prefix(prefix);
}

void Module::collect(const std::string& prefix, std::vector<NamedEntry>& entries) const {
  for (const Entry& entry : entries_) entries.push_back({prefix + entry.name, &entry});
  for (const Child& child : children_) child.module->collect(prefix + child.name + ".", entries);
}

std::vector<Module::NamedEntry> Module::named_entries() const {
  std::vector<NamedEntry> entries;
  collect("", entries);
  return entries;
}

NamedTensors Module::named_parameters() const {
  NamedTensors result;
  for (const NamedEntry& named : named_entries())
    if (named.entry->is_parameter) result.emplace_back(named.name, named.entry->tensor);
  return result;
}

NamedTensors Module::named_buffers() const {
  NamedTensors result;
  for (const NamedEntry& named : named_entries())
    if (!named.entry->is_parameter) result.emplace_back(named.name, named.entry->tensor);
  return result;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (auto& [name, tensor] : named_parameters()) result.push_back(tensor);
  return result;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& tensor : parameters()) count += tensor.numel();
  return count;
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> result{{"", this}};
  for (const Child& child : children_)
    for (const auto& [name, module] : child.module->named_modules())
      result.emplace_back(name.empty() ? child.name : child.name + "." + name, module);
  return result;
}

Module& Module::train(bool training) {
  training_ = training;
  for (const Child& child : children_) child.module->train(training);
  return *this;
}

void Module::set_step(int64_t step) {
  on_step(step);
  for (const Child& child : children_) child.module->set_step(step);
}

void Module::collect_steps(std::vector<int64_t>& steps) const {
  steps.push_back(own_step());
  for (const Child& child : children_) child.module->collect_steps(steps);
}

std::vector<int64_t> Module::steps() const {
  std::vector<int64_t> steps;
  collect_steps(steps);
  return steps;
}

/// Returns where the steps of what comes after this module begin.
const int64_t* Module::take_steps(const int64_t* steps) {
  on_step(*steps++);
  for (const Child& child : children_) steps = child.module->take_steps(steps);
  return steps;
}

void Module::set_steps(const std::vector<int64_t>& steps) {
  HEDDLE_CHECK(steps.size() == this->steps().size(), "set_steps: {} steps for {} modules",
               steps.size(), this->steps().size());
  (void)take_steps(steps.data());
}

void Module::copy_from(const Module& source) {
  const NoGradGuard no_grad;
  const std::vector<NamedEntry> mine = named_entries(), theirs = source.named_entries();
  const auto same = [](const NamedEntry& a, const NamedEntry& b) {
    return a.name == b.name && a.entry->tensor.shape() == b.entry->tensor.shape() &&
           a.entry->is_parameter == b.entry->is_parameter;
  };
  HEDDLE_CHECK(std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), same),
               "copy_from: {} of {} tensors is no copy of {} of {} tensors, or names or shapes "
               "differ",
               describe(), mine.size(), source.describe(), theirs.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    Tensor target = mine[i].entry->tensor;
    copy_(target, theirs[i].entry->tensor.detach());
  }
  copy_settings(source);
}

void Module::copy_settings(const Module& source) {
  HEDDLE_CHECK(typeid(*this) == typeid(source) && children_.size() == source.children_.size(),
               "copy_from: {} is no copy of {}", describe(), source.describe());
  training_ = source.training_;
  on_copy(source);
  for (size_t i = 0; i < children_.size(); ++i)
    children_[i].module->copy_settings(*source.children_[i].module);
}

void Module::zero_grad() {
  for (const Tensor& parameter : parameters()) parameter.set_grad({});
}

template <class Convert>
void Module::convert_tensors(Convert convert) {
  const NoGradGuard no_grad;
  for (Entry& entry : entries_) {
    Tensor converted = convert(*this, entry.tensor.detach());
    converted.set_name(entry.tensor.name());
    if (entry.is_parameter) converted.set_requires_grad();
    entry.tensor = converted;
  }
  for (const Child& child : children_) child.module->convert_tensors(convert);
}

Module& Module::to(Device device) {
  convert_tensors([device](const Module&, const Tensor& tensor) {
    const MemoryLabel label(tensor.name());
    return heddle::to(tensor, device);
  });
  return *this;
}

Module& Module::to(DType dtype) {
  HEDDLE_CHECK(is_floating(dtype), "to: dtype is {}, expected a floating one", dtype);
  convert_tensors([dtype](const Module& owner, const Tensor& tensor) {
    return is_floating(tensor.dtype()) ? heddle::to(tensor, owner.stored_dtype(dtype)) : tensor;
  });
  return *this;
}

NamedTensors Module::state() const {
  NamedTensors result;
  for (const NamedEntry& named : named_entries()) {
    const Tensor row_major = state_tensor(named.entry->tensor);
    result.emplace_back(named.name, reshape(row_major, named.entry->state_shape));
  }
  return result;
}

void Module::check_state(const NamedTensors& state) const {
  std::vector<StateSpec> expected;
  for (const NamedEntry& named : named_entries())
    expected.push_back({named.name, named.entry->tensor.dtype(), named.entry->state_shape});
  heddle::check_state("load_state", expected, state);
}

void Module::load_state(const NamedTensors& state) {
  check_state(state);
  for (const NamedEntry& named : named_entries())
    for (const auto& [name, tensor] : state)
      if (name == named.name) load_tensor(named.entry->tensor, tensor);
}

ForwardHook::ForwardHook(Module& model, Function function) : modules_(model.named_modules()) {
  for (const auto& [name, module] : modules_) {
    functions_.emplace_back(
        [function, name = name](Module& called, const Tensor& x, const Tensor& y) {
          function(name, called, x, y);
        });
    module->hook_ = &functions_.back();
  }
}

ForwardHook::~ForwardHook() {
  for (const auto& [name, module] : modules_) module->hook_ = nullptr;
}

}  // namespace heddle
