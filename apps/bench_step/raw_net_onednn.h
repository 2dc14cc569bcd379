#pragma once

#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "heddle/apps/support/raw_onednn.h"

/// A training step made of oneDNN's primitives alone, each with its arguments in the layout that it
/// asks for and a reorder wherever two of them disagree. Building one writes down the steps in the
/// order of execution; run() plays them.
namespace heddle::bench {

class RawNet {
 public:
  using Memory = dnnl::memory;
  using Desc = dnnl::memory::desc;

  /// A result of the forward pass. `backward` takes its gradient, adds the steps that follow from
  /// it, and gives the gradient of the input (empty where none was asked for).
  struct Node {
    Memory y;
    std::function<Memory(const Memory& dy)> backward;
  };
  struct Conv {
    int64_t out, kernel, stride;
    bool bias = false, relu = false, input_gradient = true;
  };
  enum class Linear {
    kInnerProduct,  ///< In whatever layouts it asks for, reorders of the weights included.
    kPlainLayouts,  ///< Row-major; in each direction the faster of inner product and matmul.
  };

  explicit RawNet(DType dtype) : dtype_(dtype) {}
  RawNet(const RawNet&) = delete;
  RawNet& operator=(const RawNet&) = delete;

  /// Images as a loader hands them over: dense channels-last.
  Memory images(int64_t batch, int64_t channels, int64_t size);
  Node conv(const Memory& x, const Conv& spec);
  Node batch_norm(const Memory& x, bool relu);
  Node add_relu(const Memory& a, const Memory& b);  ///< backward gives the gradient of both.
  Node global_average(const Memory& x);
  Node linear(const Memory& x, int64_t out, bool relu, Linear kind);
  Memory add(const Memory& a, const Memory& b);

  /// Mean cross-entropy of logits (N, classes) with the labels i mod classes; gives its gradient.
  Memory cross_entropy(const Memory& logits);
  void adam();    ///< Over all parameters: a plain loop that touches each byte once.
  void finish();  ///< Allocates the scratch space, which the steps share.

  void run();
  double loss() const { return loss_; }

 private:
  using Arguments = std::unordered_map<int, Memory>;
  struct Step {
    dnnl::primitive primitive;  // empty where `plain` is set
    Arguments arguments;
    Desc scratch;
    std::function<void()> plain;
  };
  struct Parameter {
    Memory value, gradient;
    std::vector<float> m, v;
    DType dtype;
  };

  template <class PrimitiveDesc>
  static Step step_of(const PrimitiveDesc& pd, Arguments arguments);
  void add_steps(std::vector<Step> steps);
  void add_step(Step step);
  void add_fastest(const std::vector<std::function<std::vector<Step>()>>& candidates);
  static double seconds_of(std::vector<Step>& steps);
  static void run_step(const Step& step);

  static Memory zeros(const Desc& desc);
  Memory in_layout(const Memory& memory, const Desc& wanted);
  Memory relu_backward(const Memory& y, const Memory& dy);
  Memory flat(const Memory& x);
  /// A trained tensor: `plain` describes it in row-major order, `stored` as it is kept.
  Parameter& parameter(const Desc& plain, const Desc& stored, DType dtype, float scale);
  void store_gradient(Parameter& parameter, const Memory& gradient);
  /// The backward steps of a layer with weights, in the layouts that `pd` asks for.
  template <class PrimitiveDesc>
  void add_weight_gradient(const PrimitiveDesc& pd, const Memory& x, const Memory& dy, Parameter& w,
                           const Parameter* bias);
  template <class PrimitiveDesc>
  Memory add_data_gradient(const PrimitiveDesc& pd, const Memory& dy, const Parameter& w);
  Node inner_product(const Memory& x, int64_t out, bool relu);
  struct PlainLinear;  // the parts of plain_linear
  Node plain_linear(const Memory& x, int64_t out, bool relu);
  void plain_forward(const PlainLinear& layer);
  void plain_weight_gradient(const PlainLinear& layer, const Memory& dy);
  void plain_data_gradient(const PlainLinear& layer, const Memory& dy, const Memory& dx);
  void adam_step(Parameter& parameter, int64_t step) const;

  DType dtype_;
  std::deque<Step> steps_;
  std::deque<Parameter> parameters_;
  Memory scratch_;
  int64_t step_count_ = 0;
  double loss_ = 0.0;
};

}  // namespace heddle::bench
