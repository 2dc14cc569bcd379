// Linear layers by oneDNN, over the memory as heddle stores it. Of its two primitives the faster is
// taken, as measured on a 64 x 65536 x 128 layer: forward, matmul (up to 3x faster with AVX-512,
// where inner product wants its weights in a layout of its own); data gradient, inner product in
// float32 and matmul in bfloat16; weight gradient, matmul with AVX-512, else inner product.
#include "heddle/kernels/linear.h"

#include "heddle/kernels/host/column_sums.h"
#include "heddle/kernels/host/onednn.h"

namespace heddle::onednn {
namespace {

using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;

Plan forward_plan(const LinearForwardArgs& args) {
  const Desc x = describe({args.rows, args.in}, args.dtype, Tag::ab);
  const Desc w_transposed = describe({args.in, args.out}, args.dtype, Tag::ba);
  const Desc y = describe({args.rows, args.out}, args.dtype, Tag::ab);
  const Desc bias = describe({1, args.out}, args.dtype, Tag::ab);
  const auto attr = args.relu ? attributes_with_relu() : attributes();
  const bool with_bias = args.bias != nullptr;
  const auto pd = make_pd<dnnl::matmul>(attr, x, w_transposed, with_bias ? bias : Desc(), y);
  Plan plan(pd);
  plan.output(DNNL_ARG_DST, y, y)
      .input(DNNL_ARG_SRC, x, x)
      .input(DNNL_ARG_WEIGHTS, w_transposed, w_transposed);
  if (with_bias) plan.input(DNNL_ARG_BIAS, bias, bias);
  return plan;
}

/// c (rows, columns) = a b, each given with its own layout.
Plan product_plan(const Desc& a, const Desc& b, const Desc& c) {
  Plan plan(make_pd<dnnl::matmul>(attributes(), a, b, c));
  plan.output(DNNL_ARG_DST, c, c).input(DNNL_ARG_SRC, a, a).input(DNNL_ARG_WEIGHTS, b, b);
  return plan;
}

struct Descriptions {
  Desc x, w, y, bias;
};

template <class Args>
Descriptions descriptions_of(const Args& args, DType weight_dtype) {
  return {describe({args.rows, args.in}, args.dtype, Tag::ab),
          describe({args.out, args.in}, weight_dtype, Tag::ab),
          describe({args.rows, args.out}, args.dtype, Tag::ab),
          describe({args.out}, weight_dtype, Tag::a)};
}

dnnl::inner_product_forward::primitive_desc inner_product_hint(const Descriptions& d,
                                                               bool with_bias) {
  return make_pd<dnnl::inner_product_forward>(attributes(), dnnl::prop_kind::forward_training, d.x,
                                              d.w, with_bias ? d.bias : Desc(), d.y);
}

Plan backward_data_plan(const LinearBackwardDataArgs& args) {
  const Descriptions d = descriptions_of(args, args.dtype);
  if (args.dtype == DType::kBFloat16) return product_plan(d.y, d.w, d.x);
  const auto pd = make_backward_pd<dnnl::inner_product_backward_data>(inner_product_hint(d, false),
                                                                      d.x, d.w, d.y);
  Plan plan(pd);
  plan.output(DNNL_ARG_DIFF_SRC, d.x, d.x)
      .input(DNNL_ARG_DIFF_DST, d.y, d.y)
      .input(DNNL_ARG_WEIGHTS, d.w, d.w);
  return plan;
}

/// Matmul gives no bias gradient: sum_rows does then.
bool weight_by_matmul() {
  const auto avx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & avx512) == avx512;
}

Plan backward_weight_plan(const LinearBackwardWeightArgs& args) {
  const Descriptions d = descriptions_of(args, args.dw_dtype);
  if (weight_by_matmul()) {
    const Desc dy_transposed = describe({args.out, args.rows}, args.dtype, Tag::ba);
    return product_plan(dy_transposed, d.x, d.w);
  }
  const bool with_bias = args.db != nullptr;
  const auto pd = make_backward_pd<dnnl::inner_product_backward_weights>(
      inner_product_hint(descriptions_of(args, args.dtype), with_bias), d.x, d.w,
      with_bias ? d.bias : Desc(), d.y);
  Plan plan(pd);
  plan.output(DNNL_ARG_DIFF_WEIGHTS, d.w, d.w)
      .input(DNNL_ARG_DIFF_DST, d.y, d.y)
      .input(DNNL_ARG_SRC, d.x, d.x);
  if (with_bias) plan.output(DNNL_ARG_DIFF_BIAS, d.bias, d.bias);
  return plan;
}

/// db = the sum of dy's rows.
void sum_rows(const LinearBackwardWeightArgs& args) {
  dispatch_float(args.dtype, [&]<class T>() {
    dispatch_float(args.dw_dtype, [&]<class W>() {
      cpu::sum_rows<float>(static_cast<W*>(args.db), static_cast<const T*>(args.dy), args.rows,
                           args.out);
    });
  });
}

template <class Args>
bool worth_asking(const Args& args) {
  return dtype_supported(args.dtype) && args.rows > 0 && args.in > 0 && args.out > 0;
}

}  // namespace

bool linear_forward_supports(const LinearForwardArgs& args) {
  return worth_asking(args) && find_plan(args.key(), [&] { return forward_plan(args); }) != nullptr;
}

bool linear_backward_data_supports(const LinearBackwardDataArgs& args) {
  return worth_asking(args) &&
         find_plan(args.key(), [&] { return backward_data_plan(args); }) != nullptr;
}

bool linear_backward_weight_supports(const LinearBackwardWeightArgs& args) {
  return worth_asking(args) &&
         find_plan(args.key(), [&] { return backward_weight_plan(args); }) != nullptr;
}

void linear_forward(const LinearForwardArgs& args) {
  const Plan& plan = require_plan(args.key(), [&] { return forward_plan(args); });
  if (args.bias != nullptr) return plan.run({args.y, args.x, args.w, args.bias});
  plan.run({args.y, args.x, args.w});
}

void linear_backward_data(const LinearBackwardDataArgs& args) {
  require_plan(args.key(), [&] {
    return backward_data_plan(args);
  }).run({args.dx, args.dy, args.w});
}

void linear_backward_weight(const LinearBackwardWeightArgs& args) {
  const Plan& plan = require_plan(args.key(), [&] { return backward_weight_plan(args); });
  if (args.db != nullptr && !weight_by_matmul())
    return plan.run({args.dw, args.dy, args.x, args.db});
  plan.run({args.dw, args.dy, args.x});
  if (args.db != nullptr) sum_rows(args);
}

}  // namespace heddle::onednn
