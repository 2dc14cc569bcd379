#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "heddle/core/dtype.h"

/// What the oneDNN versions of the ops share. Only *_onednn.cpp files include this: a build without
/// the library never sees it. oneDNN 2 (operation descriptors) and 3 (none) differ in how a
/// primitive is described; make_pd and make_backward_pd hide that.
namespace heddle::onednn {

dnnl::engine& engine();
dnnl::stream& stream();  ///< One for each thread.

dnnl::memory::data_type data_type(DType dtype);  ///< Errors: a dtype oneDNN is not asked for.
/// float32 and bfloat16; whether the processor is good for the latter is seen by find_plan.
bool dtype_supported(DType dtype);
/// A description of dense memory in the order of `tag`.
dnnl::memory::desc describe(const dnnl::memory::dims& dims, DType dtype,
                            dnnl::memory::format_tag tag);

/// Scratch space comes from heddle's arena, see Plan::run.
dnnl::primitive_attr attributes();
/// The smallest slope that is not zero: on negative numbers it gives zero (subnormals are flushed),
/// and the library then computes slope * x, in which NaN stays NaN; its code for slope 0 drops it.
inline constexpr float kSlopeThatKeepsNan = 1e-45F;
/// The same, with max(0, y) on the result. NaN stays NaN, as in heddle's own kernels.
dnnl::primitive_attr attributes_with_relu(float slope = kSlopeThatKeepsNan);

/// The primitive descriptor of a forward primitive (or a matmul, or a reorder's kin).
template <class Primitive, class... Args>
typename Primitive::primitive_desc make_pd(const dnnl::primitive_attr& attr, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine(), args..., attr);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), attr, engine());
#endif
}

/// The descriptor of a backward primitive; `hint` is its forward one.
template <class Primitive, class Hint, class... Args>
typename Primitive::primitive_desc make_backward_pd(const Hint& hint, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine(), args..., hint, attributes());
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), attributes(),
                                            engine(), hint);
#endif
}

/// A primitive with its arguments as heddle stores them, made once for each key. Arguments that the
/// primitive wants in another layout are reordered on the way in and out.
class Plan {
 public:
  /// Errors: dnnl::error where the library has only its slow reference code for this.
  template <class PrimitiveDesc>
  explicit Plan(const PrimitiveDesc& pd) : scratchpad_(pd.scratchpad_desc()) {
    refuse_reference(pd.impl_info_str());
    primitive_ = dnnl::primitive(pd.get());
  }

  Plan& input(int arg, const dnnl::memory::desc& stored, const dnnl::memory::desc& wanted);
  Plan& output(int arg, const dnnl::memory::desc& stored, const dnnl::memory::desc& wanted);

  /// Pointers in the order in which input() and output() named them.
  void run(std::initializer_list<const void*> pointers) const;

 private:
  struct Operand {
    int arg;
    bool is_output;
    dnnl::memory::desc stored, wanted;
    dnnl::reorder reorder;  // empty where what is stored is what is wanted
    size_t reorder_scratch = 0;
  };
  static void refuse_reference(const char* implementation);
  void add(int arg, bool is_output, const dnnl::memory::desc& stored,
           const dnnl::memory::desc& wanted);

  dnnl::primitive primitive_;
  dnnl::memory::desc scratchpad_;
  std::vector<Operand> operands_;
  size_t reorder_scratch_ = 0;  // bytes, the most that one reorder needs
};

/// The plan for `key` and the current number of threads, built at its first use; null where
/// oneDNN cannot do this on this processor. It stays good for the life of the process.
const Plan* find_plan(const std::string& key, const std::function<Plan()>& build);

/// As find_plan. Errors: Error naming the key where there is no plan.
const Plan& require_plan(const std::string& key, const std::function<Plan()>& build);

}  // namespace heddle::onednn
