#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/tensor.h"
#include "heddle/nn/state.h"

namespace heddle {

/// A part of a model: parameters, buffers (state without gradient) and child modules, each with a
/// name, and a forward function. A module of one's own registers its parts as it makes them:
///
///     class Net : public Module {
///      public:
///       Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
///       Linear& fc1 = add("fc1", Linear(8, 16));
///       Linear& fc2 = add("fc2", Linear(16, 1));
///     };
///
/// The module owns its parts on the heap and can be moved, not copied. Parameters carry their full
/// name ("layer1.0.conv1.weight") once the whole model is made.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  Module& operator=(Module&&) = delete;

  Tensor operator()(const Tensor& x);  ///< forward(), and the hook where one is set.
  virtual Tensor forward(const Tensor& x) = 0;

  /// What the module is, for summaries and messages: "Conv2d(3, 32, kernel 3x3)".
  virtual std::string describe() const { return "Module"; }
  /// Operations of a forward from x to y, a multiply-add counted as two; 0 where they do not matter
  /// beside convolutions.
  virtual int64_t flops(const Tensor& /*x*/, const Tensor& /*y*/) const { return 0; }

  std::vector<Tensor> parameters() const;
  NamedTensors named_parameters() const;  ///< This module's own first, then its children's.
  NamedTensors named_buffers() const;
  std::vector<std::pair<std::string, Module*>> named_modules();  ///< This one first, named "".
  int64_t parameter_count() const;

  Module& train(bool training = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }
  /// Moves everything. Call it before an optimizer takes the parameters. Errors: a device that this
  /// build or machine lacks; OutOfMemory.
  Module& to(Device device);
  /// Converts floating parameters and buffers. Call it before an optimizer takes the parameters.
  Module& to(DType dtype);
  /// Becomes a copy of `source` where it is: parameters, buffers, modes and random streams.
  /// Errors: another structure.
  void copy_from(const Module& source);
  void zero_grad();
  /// The number of the training step, which random layers draw their numbers by.
  void set_step(int64_t step);
  /// The steps that the modules, in their order, have counted on to since; and setting them so.
  std::vector<int64_t> steps() const;
  void set_steps(const std::vector<int64_t>& steps);

  /// Parameters and buffers under PyTorch's names, shapes and row-major order. Tensors that are
  /// stored so share their memory with the module.
  NamedTensors state() const;
  /// Takes over values. Errors: names missing or unexpected, shapes or dtypes that differ: all
  /// listed in one message, and nothing is changed then.
  void load_state(const NamedTensors& state);
  void check_state(const NamedTensors& state) const;  ///< The errors of load_state alone.

 protected:
  Module() = default;
  Module(Module&&) = default;

  /// `state_shape` is the shape in state(), where it is not that of the tensor.
  Tensor& add_parameter(const std::string& name, Tensor value, const Shape& state_shape);
  Tensor& add_parameter(const std::string& name, Tensor value);
  Tensor& add_buffer(const std::string& name, Tensor value);
  template <class M>
  M& add(const std::string& name, M module) {
    auto owned = std::make_unique<M>(std::move(module));
    M& reference = *owned;
    add_child(name, std::move(owned));
    return reference;
  }
  void add_child(const std::string& name, std::unique_ptr<Module> module);
  /// What to(dtype) makes of this module's own tensors.
  virtual DType stored_dtype(DType asked) const { return asked; }
  /// What set_step does beyond passing the number on.
  virtual void on_step(int64_t /*step*/) {}
  /// What on_step would put back: of a module that counts on from there.
  virtual int64_t own_step() const { return 0; }
  /// What copy_from does beyond tensors and modes; `source` is a module of this class.
  virtual void on_copy(const Module& /*source*/) {}

 private:
  friend class ForwardHook;
  struct Entry {
    std::string name;
    Tensor tensor;
    Shape state_shape;
    bool is_parameter;
  };
  struct Child {
    std::string name;
    std::unique_ptr<Module> module;
  };
  struct NamedEntry;

  void check_name(const std::string& name) const;
  void add_prefix(const std::string& prefix);
  void collect(const std::string& prefix, std::vector<NamedEntry>& entries) const;
  std::vector<NamedEntry> named_entries() const;
  void copy_settings(const Module& source);
  void collect_steps(std::vector<int64_t>& steps) const;
  const int64_t* take_steps(const int64_t* steps);
  template <class Convert>
  void convert_tensors(Convert convert);

  std::deque<Entry> entries_;  // a deque: references to its elements stay good
  std::vector<Child> children_;
  std::string path_;  // from the outermost module: "layer1.0"
  bool training_ = true;
  const std::function<void(Module&, const Tensor&, const Tensor&)>* hook_ = nullptr;
};

/// While it lives, calls `function(name, module, x, y)` after each forward of `model` and of every
/// module in it, innermost first.
class ForwardHook {
 public:
  using Function = std::function<void(const std::string& name, Module& module, const Tensor& x,
                                      const Tensor& y)>;
  ForwardHook(Module& model, Function function);
  ~ForwardHook();
  ForwardHook(const ForwardHook&) = delete;
  ForwardHook& operator=(const ForwardHook&) = delete;

 private:
  std::vector<std::pair<std::string, Module*>> modules_;
  std::deque<std::function<void(Module&, const Tensor&, const Tensor&)>> functions_;
};

}  // namespace heddle
