#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/core/tensor.h"

namespace heddle {

/// True where operations are recorded on this thread.
bool grad_enabled();

/// No recording while it lives. The state is one per thread; worker threads of parallel_for and of
/// thread pools take over the state of the thread that gave them the work (GradState).
class NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool previous_;
};

/// Carries the recording state to another thread: capture where work is handed over, apply there.
class GradState {
 public:
  GradState();                 ///< Captures this thread's state.
  class [[nodiscard]] Scope {  ///< Puts the previous state back when it ends.
   public:
    explicit Scope(bool enabled);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    bool previous_;
  };
  Scope apply() const { return Scope(enabled_); }

 private:
  bool enabled_;
};

/// A tensor that backward needs, with the version of its storage when it was saved.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(const Tensor& tensor);
  /// The tensor. Errors: its storage was written in place since it was saved.
  Tensor get() const;
  bool defined() const { return tensor_.defined(); }

 private:
  Tensor tensor_;  // detached: no cycle when an op saves its own result
  int64_t version_ = 0;
};

/// Gradients of an operation's inputs, in their order; undefined where an input needs none.
using Gradients = std::vector<Tensor>;
/// Called with the gradient of the output.
using BackwardFunction = std::function<Gradients(const Tensor& dy)>;

/// True where one of `inputs` has a gradient to receive and recording is on. Ops ask it before they
/// save anything.
bool needs_grad(std::initializer_list<Tensor> inputs);
bool needs_grad(const std::vector<Tensor>& inputs);

/// Appends an entry to this thread's tape: `output` was made from `inputs` by `op`, and `backward`
/// gives their gradients. Does nothing where needs_grad(inputs) is false. The entry is owned by the
/// output, so a graph that nobody walks goes with its last tensor.
void record(std::string op, Tensor& output, std::vector<Tensor> inputs, BackwardFunction backward);

/// As record, for an operation that wrote into `target`, whose earlier history becomes the input
/// that `backward` gives the first gradient for. Bumps the version.
/// Errors: target is a leaf that requires grad, or a view of a tensor with history.
void record_in_place(std::string op, Tensor& target, std::vector<Tensor> other_inputs,
                     BackwardFunction backward);
/// The errors of record_in_place, to be called before writing.
void check_in_place(const std::string& op, const Tensor& target);

/// Marks `output` as a view of `base` (same storage) and records `backward`.
void record_view(std::string op, Tensor& output, const Tensor& base, BackwardFunction backward);

/// Sums two gradients into a new tensor. Declared here for the tape, which has no op maths of its
/// own; defined beside `add` in nn/ops.
Tensor accumulate_gradients(const Tensor& a, const Tensor& b);
/// A dense copy in the storage order of `like`, converted to its dtype; defined in nn/ops.
Tensor copy_gradient(const Tensor& gradient, const Tensor& like);
/// A tensor of ones shaped like `like`; defined in nn/ops.
Tensor ones_gradient(const Tensor& like);

}  // namespace heddle
