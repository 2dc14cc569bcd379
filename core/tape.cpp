// The tape. Each operation that has a gradient to give makes an entry with the next number of its
// thread; the entry is owned by the operation's result and owns the entries of its inputs. backward
// collects the entries that its tensor depends on and walks them from the highest number to the
// lowest: the reverse of execution order. So the order in which leaves become ready is known, and a
// graph that is never walked goes with its last tensor.
#include "heddle/core/tape.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "heddle/core/memory_label.h"
#include "heddle/core/tensor_impl.h"
#include "heddle/core/trace.h"

namespace heddle {
namespace {

thread_local bool t_grad_enabled = true;
thread_local int64_t t_entries = 0;

}  // namespace

bool grad_enabled() { return t_grad_enabled; }

NoGradGuard::NoGradGuard() : previous_(t_grad_enabled) { t_grad_enabled = false; }
NoGradGuard::~NoGradGuard() { t_grad_enabled = previous_; }

GradState::GradState() : enabled_(t_grad_enabled) {}
GradState::Scope::Scope(bool enabled) : previous_(t_grad_enabled) { t_grad_enabled = enabled; }
GradState::Scope::~Scope() { t_grad_enabled = previous_; }

/// One input of an entry: the entry that made it, or a leaf, or neither where it needs no gradient.
struct TapeEdge {
  std::shared_ptr<TapeEntry> producer;
  Tensor leaf;
  Shape shape;
};

class TapeEntry {
 public:
  TapeEntry(std::string op, std::vector<TapeEdge> inputs, BackwardFunction backward)
      : op_(std::move(op)),
        number_(t_entries++),
        inputs_(std::move(inputs)),
        backward_(std::move(backward)) {}
  TapeEntry(const TapeEntry&) = delete;
  TapeEntry& operator=(const TapeEntry&) = delete;
  ~TapeEntry() { drop_inputs(std::move(inputs_)); }

  const std::string& op() const { return op_; }
  int64_t number() const { return number_; }
  const std::vector<TapeEdge>& inputs() const { return inputs_; }
  bool released() const { return backward_ == nullptr; }

  Gradients run(const Tensor& dy) const {
    const MemoryLabel label(op_);
    const TraceSpan span(op_, "backward");
    Gradients gradients = backward_(dy);
    HEDDLE_CHECK(gradients.size() == inputs_.size(),
                 "{}: its backward gave {} gradients for {} inputs", op_, gradients.size(),
                 inputs_.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      HEDDLE_CHECK(!gradients[i].defined() || gradients[i].shape() == inputs_[i].shape,
                   "{}: its backward gave a gradient of shape {} for input {} of shape {}", op_,
                   gradients[i].shape(), i, inputs_[i].shape);
    }
    return gradients;
  }

  /// Gives saved tensors and the way back free.
  void release() {
    backward_ = nullptr;
    drop_inputs(std::move(inputs_));
    inputs_.clear();
  }

 private:
  /// A chain of a million entries must not be a recursion a million deep.
  static void drop_inputs(std::vector<TapeEdge> edges) {
    while (!edges.empty()) {
      const std::shared_ptr<TapeEntry> entry = std::move(edges.back().producer);
      edges.pop_back();
      if (entry == nullptr || entry.use_count() > 1) continue;
      std::move(entry->inputs_.begin(), entry->inputs_.end(), std::back_inserter(edges));
      entry->inputs_.clear();
    }
  }

  std::string op_;
  int64_t number_;
  std::vector<TapeEdge> inputs_;
  BackwardFunction backward_;
};

AutogradMeta& TapeAccess::meta(const Tensor& tensor) {
  (void)tensor.impl();
  if (tensor.impl_->autograd == nullptr) tensor.impl_->autograd = std::make_unique<AutogradMeta>();
  return *tensor.impl_->autograd;
}

const AutogradMeta* TapeAccess::find_meta(const Tensor& tensor) {
  return tensor.defined() ? tensor.impl_->autograd.get() : nullptr;
}

namespace {

std::string quoted_name(const Tensor& tensor) {
  return tensor.name().empty() ? fmt::format("a tensor of shape {}", tensor.shape())
                               : fmt::format("\"{}\" {}", tensor.name(), tensor.shape());
}

TapeEdge edge_to(const std::string& op, const Tensor& input) {
  const AutogradMeta* meta = TapeAccess::find_meta(input);
  TapeEdge edge;
  if (!input.defined()) return edge;
  edge.shape = input.shape();
  if (meta == nullptr || !input.requires_grad()) return edge;
  HEDDLE_CHECK(
      !meta->is_view || meta->view_version == input.version(),
      "{}: {} is a view that was made before its memory was written in place; take the view "
      "again",
      op, quoted_name(input));
  if (meta->entry != nullptr) {
    edge.producer = meta->entry;
  } else {
    edge.leaf = input;
  }
  return edge;
}

std::shared_ptr<TapeEntry> make_entry(std::string op, const std::vector<Tensor>& inputs,
                                      BackwardFunction backward) {
  std::vector<TapeEdge> edges;
  edges.reserve(inputs.size());
  for (const Tensor& input : inputs) edges.push_back(edge_to(op, input));
  return std::make_shared<TapeEntry>(std::move(op), std::move(edges), std::move(backward));
}

/// One call of backward.
class Walk {
 public:
  Walk(std::shared_ptr<TapeEntry> root, bool retain) : retain_(retain) { collect(std::move(root)); }

  void run(const Tensor& gradient) {
    const NoGradGuard no_grad;
    gradients_[order_.front().get()] = gradient;
    for (std::shared_ptr<TapeEntry>& entry : order_) {
      step(*entry);
      if (!retain_) entry->release();
      entry = nullptr;
    }
  }

 private:
  struct Leaf {
    int64_t uses = 0;  // by entries that are still to be walked
    Tensor gradient;
  };

  void collect(std::shared_ptr<TapeEntry> root) {
    std::unordered_set<const TapeEntry*> seen{root.get()};
    order_.push_back(std::move(root));
    for (size_t i = 0; i < order_.size(); ++i) {
      const TapeEntry& entry = *order_[i];
      HEDDLE_CHECK(!entry.released(),
                   "backward: {} was walked before and what it saved is gone; pass retain_graph = "
                   "true to the first call to walk twice",
                   entry.op());
      const std::vector<TapeEdge>& inputs = entry.inputs();
      for (const TapeEdge& edge : inputs) {
        if (edge.leaf.defined()) ++leaves_[TapeAccess::identity(edge.leaf)].uses;
        if (edge.producer != nullptr && seen.insert(edge.producer.get()).second)
          order_.push_back(edge.producer);
      }
    }
    std::sort(order_.begin(), order_.end(),
              [](const auto& a, const auto& b) { return a->number() > b->number(); });
  }

  void step(const TapeEntry& entry) {
    const auto found = gradients_.find(&entry);
    Gradients input_gradients(entry.inputs().size());
    if (found != gradients_.end() && found->second.defined()) {
      const Tensor dy = std::move(found->second);
      gradients_.erase(found);
      input_gradients = entry.run(dy);
    }
    for (size_t i = 0; i < input_gradients.size(); ++i)
      deliver(entry.inputs()[i], std::move(input_gradients[i]));
  }

  void deliver(const TapeEdge& edge, Tensor gradient) {
    if (edge.producer != nullptr) {
      accumulate(gradients_[edge.producer.get()], std::move(gradient));
    } else if (edge.leaf.defined()) {
      Leaf& leaf = leaves_.at(TapeAccess::identity(edge.leaf));
      accumulate(leaf.gradient, std::move(gradient));
      if (--leaf.uses == 0) finish_leaf(edge.leaf, std::move(leaf.gradient));
    }
  }

  static void accumulate(Tensor& sum, Tensor gradient) {
    if (!gradient.defined()) return;
    sum = sum.defined() ? accumulate_gradients(sum, gradient) : std::move(gradient);
  }

  static bool same_layout(const Tensor& a, const Tensor& b) {
    if (a.dtype() != b.dtype()) return false;
    for (int i = 0; i < a.dim(); ++i)
      if (a.shape()[i] > 1 && a.strides()[i] != b.strides()[i]) return false;
    return true;
  }

  static void finish_leaf(const Tensor& leaf, Tensor gradient) {
    if (!gradient.defined()) return;
    AutogradMeta& meta = TapeAccess::meta(leaf);
    if (meta.grad.defined()) {
      meta.grad = accumulate_gradients(meta.grad, gradient);
    } else if (TapeAccess::is_unique(gradient) && same_layout(gradient, leaf)) {
      meta.grad = std::move(gradient);
    } else {
      meta.grad = copy_gradient(gradient, leaf);
    }
    for (const auto& hook : meta.hooks) hook(leaf);
  }

  bool retain_;
  std::vector<std::shared_ptr<TapeEntry>> order_;
  std::unordered_map<const TapeEntry*, Tensor> gradients_;
  std::unordered_map<const void*, Leaf> leaves_;
};

}  // namespace

SavedTensor::SavedTensor(const Tensor& tensor)
    : tensor_(tensor.defined() ? tensor.detach() : Tensor()),
      version_(tensor.defined() ? tensor.version() : 0) {}

Tensor SavedTensor::get() const {
  HEDDLE_CHECK(
      !tensor_.defined() || tensor_.version() == version_,
      "backward: {} is needed for a gradient, but it was written in place since (version {}, "
      "saved at {})",
      quoted_name(tensor_), tensor_.version(), version_);
  return tensor_;
}

bool needs_grad(std::initializer_list<Tensor> inputs) {
  return t_grad_enabled && std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) {
           return input.defined() && input.requires_grad();
         });
}

bool needs_grad(const std::vector<Tensor>& inputs) {
  return t_grad_enabled && std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) {
           return input.defined() && input.requires_grad();
         });
}

void record(std::string op, Tensor& output, std::vector<Tensor> inputs, BackwardFunction backward) {
  if (!needs_grad(inputs)) return;
  TapeAccess::meta(output).entry = make_entry(std::move(op), inputs, std::move(backward));
}

void check_in_place(const std::string& op, const Tensor& target) {
  const AutogradMeta* meta = TapeAccess::find_meta(target);
  if (!t_grad_enabled || meta == nullptr) return;
  HEDDLE_CHECK(!meta->requires_grad,
               "{}: {} is a leaf that requires grad; write to it inside NoGradGuard", op,
               quoted_name(target));
  HEDDLE_CHECK(!meta->is_view,
               "{}: {} is a view of a tensor with history; write to the tensor itself, or out of "
               "place",
               op, quoted_name(target));
}

void record_in_place(std::string op, Tensor& target, std::vector<Tensor> other_inputs,
                     BackwardFunction backward) {
  check_in_place(op, target);
  std::vector<Tensor> inputs{target};
  inputs.insert(inputs.end(), other_inputs.begin(), other_inputs.end());
  if (needs_grad(inputs))
    TapeAccess::meta(target).entry = make_entry(std::move(op), inputs, std::move(backward));
  target.bump_version();
}

void record_view(std::string op, Tensor& output, const Tensor& base, BackwardFunction backward) {
  if (!needs_grad({base})) return;
  record(std::move(op), output, {base}, std::move(backward));
  AutogradMeta& meta = TapeAccess::meta(output);
  meta.is_view = true;
  meta.view_version = output.version();
}

bool Tensor::requires_grad() const {
  const AutogradMeta* meta = TapeAccess::find_meta(*this);
  return meta != nullptr && (meta->requires_grad || meta->entry != nullptr);
}

Tensor& Tensor::set_requires_grad(bool value) {
  HEDDLE_CHECK(is_floating(dtype()), "set_requires_grad: {} has no gradients", dtype());
  HEDDLE_CHECK(is_leaf(),
               "set_requires_grad: the result of an operation has a history already; "
               "detach() it first");
  TapeAccess::meta(*this).requires_grad = value;
  return *this;
}

bool Tensor::is_leaf() const {
  const AutogradMeta* meta = TapeAccess::find_meta(*this);
  return meta == nullptr || meta->entry == nullptr;
}

Tensor Tensor::grad() const {
  const AutogradMeta* meta = TapeAccess::find_meta(*this);
  return meta == nullptr ? Tensor() : meta->grad;
}

void Tensor::set_grad(const Tensor& grad) const {
  HEDDLE_CHECK(!grad.defined() || (grad.shape() == shape() && grad.dtype() == dtype()),
               "set_grad: gradient is {} {}, the tensor {} {}", grad.dtype(), grad.shape(), dtype(),
               shape());
  HEDDLE_CHECK(!grad.defined() || grad.device() == device(),
               "set_grad: gradient is on {}, the tensor on {}", grad.device().to_string(),
               device().to_string());
  TapeAccess::meta(*this).grad = grad;
}

void Tensor::register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const {
  HEDDLE_CHECK(is_leaf() && requires_grad(),
               "register_post_accumulate_grad_hook: {} is no leaf that requires grad",
               quoted_name(*this));
  TapeAccess::meta(*this).hooks.push_back(std::move(hook));
}

void Tensor::backward(const Tensor& gradient, bool retain_graph) const {
  HEDDLE_CHECK(requires_grad(), "backward: nothing that made this tensor requires grad");
  HEDDLE_CHECK(gradient.defined() || numel() == 1,
               "backward: shape is {}, expected one element, or a gradient of the same shape",
               shape());
  HEDDLE_CHECK(!gradient.defined() || (gradient.shape() == shape() && gradient.dtype() == dtype()),
               "backward: gradient is {} {}, the tensor {} {}", gradient.dtype(), gradient.shape(),
               dtype(), shape());
  HEDDLE_CHECK(!gradient.defined() || gradient.device() == device(),
               "backward: gradient is on {}, the tensor on {}", gradient.device().to_string(),
               device().to_string());
  const Tensor dy = gradient.defined() ? gradient : ones_gradient(*this);
  const AutogradMeta& meta = TapeAccess::meta(*this);
  if (meta.entry == nullptr) {
    const NoGradGuard no_grad;
    set_grad(grad().defined() ? accumulate_gradients(grad(), dy) : copy_gradient(dy, *this));
    for (const auto& hook : meta.hooks) hook(*this);
    return;
  }
  Walk(meta.entry, retain_graph).run(dy);
}

}  // namespace heddle
