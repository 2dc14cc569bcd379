// oneDNN's elementwise operations, reductions, softmax, reorders and plain matrix product. Their
// memory is dense: blocked and plain layouts are the same thing to them.
#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/support/raw_descriptors_onednn.h"

namespace heddle::bench {
namespace {

using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;

Desc rows_of(int64_t rows, int64_t cols, DType dtype) {
  return onednn::describe({rows, cols}, dtype, Tag::ab);
}

/// Makes the primitive with its memory, and leaves the side out where oneDNN cannot.
template <class Make>
void add_raw(const Make& make, Sides& sides) {
  try {
    const auto primitive = std::make_shared<RawPrimitive>(make());
    sides.push_back({"oneDNN", [primitive] { primitive->run(); }});
  } catch (const dnnl::error&) {
    return;  // not on this processor
  }
}

/// The algorithm, and whether its backward is given the result in place of the input.
struct Eltwise {
  dnnl::algorithm kind;
  bool backward_from_result;
};

Eltwise eltwise_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::kRelu:
      return {dnnl::algorithm::eltwise_relu, true};
    case UnaryOp::kGelu:
      return {dnnl::algorithm::eltwise_gelu_erf, false};
    case UnaryOp::kExp:
      return {dnnl::algorithm::eltwise_exp, true};
    case UnaryOp::kSqrt:
      return {dnnl::algorithm::eltwise_sqrt, true};
    case UnaryOp::kTanh:
      return {dnnl::algorithm::eltwise_tanh, true};
    case UnaryOp::kSigmoid:
      return {dnnl::algorithm::eltwise_logistic, true};
    case UnaryOp::kLog:
      return {dnnl::algorithm::eltwise_log, false};
    case UnaryOp::kNeg:
      break;
  }
  return {dnnl::algorithm::eltwise_linear, false};  // -1 * x + 0
}

/// Their backward from the result has names of its own.
dnnl::algorithm from_result(dnnl::algorithm kind) {
  switch (kind) {
    case dnnl::algorithm::eltwise_relu:
      return dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
    case dnnl::algorithm::eltwise_exp:
      return dnnl::algorithm::eltwise_exp_use_dst_for_bwd;
    case dnnl::algorithm::eltwise_sqrt:
      return dnnl::algorithm::eltwise_sqrt_use_dst_for_bwd;
    case dnnl::algorithm::eltwise_tanh:
      return dnnl::algorithm::eltwise_tanh_use_dst_for_bwd;
    default:
      return dnnl::algorithm::eltwise_logistic_use_dst_for_bwd;
  }
}

}  // namespace

void add_raw_unary(UnaryOp op, bool forward, int64_t n, DType dtype, Sides& sides) {
  const Eltwise eltwise = eltwise_of(op);
  const float alpha = op == UnaryOp::kNeg ? -1.0F : 0.0F;
  const Desc x = onednn::describe({n}, dtype, Tag::a);
  const auto filled = [&] { return random_memory(x, dtype); };
  if (forward) {
    add_raw(
        [&] {
          RawPrimitive primitive(eltwise_forward_pd(eltwise.kind, x, alpha));
          primitive.bind(DNNL_ARG_SRC, filled()).bind(DNNL_ARG_DST, filled());
          return primitive;
        },
        sides);
    return;
  }
  const bool result = eltwise.backward_from_result;
  add_raw(
      [&] {
        RawPrimitive primitive(
            eltwise_backward_pd(result ? from_result(eltwise.kind) : eltwise.kind, x, alpha));
        primitive.bind(result ? DNNL_ARG_DST : DNNL_ARG_SRC, filled())
            .bind(DNNL_ARG_DIFF_DST, filled())
            .bind(DNNL_ARG_DIFF_SRC, filled());
        return primitive;
      },
      sides);
}

void add_raw_binary(BinaryOp op, int64_t rows, int64_t cols, bool broadcast, DType dtype,
                    Sides& sides) {
  const auto kind =
      op == BinaryOp::kMul ? dnnl::algorithm::binary_mul : dnnl::algorithm::binary_add;
  const Desc x = rows_of(rows, cols, dtype), b = rows_of(broadcast ? 1 : rows, cols, dtype);
  add_raw(
      [&] {
        RawPrimitive primitive(onednn::make_pd<dnnl::binary>(onednn::attributes(), kind, x, b, x));
        primitive.bind(DNNL_ARG_SRC_0, random_memory(x, dtype))
            .bind(DNNL_ARG_SRC_1, random_memory(b, dtype))
            .bind(DNNL_ARG_DST, random_memory(x, dtype));
        return primitive;
      },
      sides);
}

void add_raw_cast(int64_t n, DType from, DType to, Sides& sides) {
  const Desc x = onednn::describe({n}, from, Tag::a), y = onednn::describe({n}, to, Tag::a);
  add_raw(
      [&] {
        RawPrimitive primitive(dnnl::reorder::primitive_desc(onednn::engine(), x, onednn::engine(),
                                                             y, onednn::attributes()));
        primitive.bind(DNNL_ARG_FROM, random_memory(x, from))
            .bind(DNNL_ARG_TO, random_memory(y, to));
        return primitive;
      },
      sides);
}

void add_raw_reduce(ReduceOp op, int64_t rows, int64_t cols, int64_t to_rows, int64_t to_cols,
                    DType dtype, Sides& sides) {
  const Desc x = rows_of(rows, cols, dtype), y = rows_of(to_rows, to_cols, dtype);
  const auto kind =
      op == ReduceOp::kSum ? dnnl::algorithm::reduction_sum : dnnl::algorithm::reduction_max;
  add_raw(
      [&] {
        RawPrimitive primitive(
            onednn::make_pd<dnnl::reduction>(onednn::attributes(), kind, x, y, 0.0F, 0.0F));
        primitive.bind(DNNL_ARG_SRC, random_memory(x, dtype))
            .bind(DNNL_ARG_DST, random_memory(y, dtype));
        return primitive;
      },
      sides);
}

void add_raw_log_softmax(int64_t rows, int64_t cols, DType dtype, Sides& sides) {
  const Desc x = rows_of(rows, cols, dtype);
  add_raw(
      [&] {
        RawPrimitive primitive(log_softmax_forward_pd(x));
        primitive.bind(DNNL_ARG_SRC, random_memory(x, dtype))
            .bind(DNNL_ARG_DST, random_memory(x, dtype));
        return primitive;
      },
      sides);
}

void add_raw_matmul(DType dtype, int64_t n, Sides& sides) {
  const Desc x = rows_of(n, n, dtype);
  add_raw(
      [&] {
        RawPrimitive primitive(onednn::make_pd<dnnl::matmul>(onednn::attributes(), x, x, x));
        primitive.bind(DNNL_ARG_SRC, random_memory(x, dtype))
            .bind(DNNL_ARG_WEIGHTS, random_memory(x, dtype))
            .bind(DNNL_ARG_DST, random_memory(x, dtype));
        return primitive;
      },
      sides);
}

}  // namespace heddle::bench
