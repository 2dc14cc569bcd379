// y = x w^T + b, dx = dy w, dw = dy^T x and db = the sum of dy's rows, as matrix products on the
// blocking of kernels/host/gemm.h. Sums are kept in the type of the operands, those of 16-bit
// floats in float32. Gradients in bfloat16 go by pairs where the processor has units for them;
// other products of 16-bit floats go through float32 copies (correct, slow). Deterministic.
#include "heddle/kernels/linear.h"

#include <algorithm>

#include "heddle/kernels/host/column_sums.h"
#include "heddle/kernels/host/gemm.h"
#include "heddle/kernels/host/isa.h"
#include "heddle/kernels/host/pair_product.h"
#include "heddle/kernels/host/parallel_for.h"
#include "heddle/kernels/host/widen.h"

namespace heddle {
namespace {

template <class T>
void forward(const LinearForwardArgs& args) {
  cpu::gemm<T>({args.rows, args.out, args.in, static_cast<T*>(args.y), args.out,
                static_cast<const T*>(args.x), args.in, 1, static_cast<const T*>(args.w), 1,
                args.in, static_cast<const T*>(args.bias), args.relu});
}

template <class T>
void backward_data(const LinearBackwardDataArgs& args) {
  cpu::gemm<T>({args.rows, args.in, args.out, static_cast<T*>(args.dx), args.in,
                static_cast<const T*>(args.dy), args.out, 1, static_cast<const T*>(args.w), args.in,
                1});
}

template <class T>
void backward_weight(const LinearBackwardWeightArgs& args) {
  const T* dy = static_cast<const T*>(args.dy);
  cpu::gemm<T>({args.out, args.in, args.rows, static_cast<T*>(args.dw), args.in, dy, 1, args.out,
                static_cast<const T*>(args.x), args.in, 1});
  if (args.db != nullptr) cpu::sum_rows<T>(static_cast<T*>(args.db), dy, args.rows, args.out);
}

constexpr int64_t kMostPairDepth = 8192;  // the packed part of an operand stays in a cache

template <class Args>
bool by_pairs(const Args& args, int64_t depth) {
  return args.dtype == DType::kBFloat16 && cpu::has_bfloat16_units() && depth <= kMostPairDepth;
}

void weight_by_pairs(const LinearBackwardWeightArgs& args) {
  const auto* dy = static_cast<const BFloat16*>(args.dy);
  cpu::multiply_pairs({args.out, args.in, args.rows, args.dw, args.dw_dtype, dy, 1, args.out,
                       static_cast<const BFloat16*>(args.x)});
  if (args.db == nullptr) return;
  dispatch_float(args.dw_dtype, [&]<class W>() {
    cpu::sum_rows<float>(static_cast<W*>(args.db), dy, args.rows, args.out);
  });
}

std::string sizes(DType dtype, int64_t rows, int64_t in, int64_t out) {
  return fmt::format("{} m{} k{} n{}", dtype, rows, in, out);
}

}  // namespace

std::string LinearForwardArgs::key() const {
  return fmt::format("linear_forward {}{}{}", sizes(dtype, rows, in, out),
                     bias != nullptr ? " bias" : "", relu ? " relu" : "");
}

std::string LinearBackwardDataArgs::key() const {
  return "linear_backward_data " + sizes(dtype, rows, in, out);
}

std::string LinearBackwardWeightArgs::key() const {
  return fmt::format("linear_backward_weight {}{}{}", sizes(dtype, rows, in, out),
                     db != nullptr ? " bias" : "",
                     dw_dtype != dtype ? fmt::format(" into {}", dw_dtype) : "");
}

void cpu::linear_forward(const LinearForwardArgs& args) {
  if (args.dtype == DType::kFloat64) return forward<double>(args);
  if (!is_16_bit(args.dtype)) return forward<float>(args);
  const Widened x(args.x, args.rows * args.in, args.dtype);
  const Widened w(args.w, args.out * args.in, args.dtype);
  const Widened bias(args.bias, args.out, args.dtype);
  const Narrowed y(args.y, args.rows * args.out, args.dtype);
  forward<float>({args.dtype, args.rows, args.in, args.out, y.data(), x.data(), w.data(),
                  bias.data(), args.relu});
  y.write();
}

void cpu::linear_backward_data(const LinearBackwardDataArgs& args) {
  if (args.dtype == DType::kFloat64) return backward_data<double>(args);
  if (!is_16_bit(args.dtype)) return backward_data<float>(args);
  if (by_pairs(args, args.out))
    return cpu::multiply_pairs({args.rows, args.in, args.out, args.dx, args.dtype,
                                static_cast<const BFloat16*>(args.dy), args.out, 1,
                                static_cast<const BFloat16*>(args.w)});
  const Widened dy(args.dy, args.rows * args.out, args.dtype);
  const Widened w(args.w, args.out * args.in, args.dtype);
  const Narrowed dx(args.dx, args.rows * args.in, args.dtype);
  backward_data<float>({args.dtype, args.rows, args.in, args.out, dx.data(), dy.data(), w.data()});
  dx.write();
}

void cpu::linear_backward_weight(const LinearBackwardWeightArgs& args) {
  if (args.dtype == DType::kFloat64) return backward_weight<double>(args);
  if (!is_16_bit(args.dtype)) return backward_weight<float>(args);
  if (by_pairs(args, args.rows)) return weight_by_pairs(args);
  const Widened x(args.x, args.rows * args.in, args.dtype);
  const Widened dy(args.dy, args.rows * args.out, args.dtype);
  const auto into = [&](void* dw, void* db) {
    backward_weight<float>(
        {DType::kFloat32, args.rows, args.in, args.out, dw, db, x.data(), dy.data()});
  };
  if (args.dw_dtype == DType::kFloat32) return into(args.dw, args.db);
  const Narrowed dw(args.dw, args.out * args.in, args.dtype);
  const Narrowed db(args.db, args.out, args.dtype);
  into(dw.data(), db.data());
  dw.write();
  db.write();
}

}  // namespace heddle
