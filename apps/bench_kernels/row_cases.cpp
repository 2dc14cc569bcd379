// Reductions, softmax and the loss: what works along rows.
#include <fmt/format.h>

#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/bench_kernels/sides.h"
#include "heddle/kernels/cross_entropy.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/log_softmax.h"
#include "heddle/kernels/reduce.h"

namespace heddle::bench {
namespace {

constexpr int64_t kRowsAnImage = 64, kClasses = 1000;

struct Rows {
  int64_t rows, cols;
  DType dtype;

  int64_t n() const { return rows * cols; }
  int64_t bytes() const { return n() * size_of(dtype); }
};

Case case_of(const char* name, const Rows& rows, int64_t bytes,
             std::function<Prepared(const Setting&)> prepare) {
  Case result;
  result.name = fmt::format("{}/{}x{}/{}", name, rows.rows, rows.cols, rows.dtype);
  result.dtype = rows.dtype;
  result.bytes = static_cast<double>(bytes);
  result.prepare = std::move(prepare);
  return result;
}

/// Which dimensions are left of (rows, cols).
enum class Kept { kRows, kCols, kNone };

Shape shape_of(const Rows& rows, Kept kept) {
  return {kept == Kept::kRows ? rows.rows : 1, kept == Kept::kCols ? rows.cols : 1};
}

View view_of(const Tensor& x, const Shape& shape) {
  return {x.raw_data(), x.dtype(), shape, {shape[1], 1}};
}

Case reduce_case(const char* name, ReduceOp op, Kept kept, const Rows& rows) {
  const Shape to = shape_of(rows, kept);
  return case_of(
      name, rows, rows.bytes() + numel(to) * size_of(rows.dtype), [=](const Setting& setting) {
        Prepared prepared;
        prepared.result = output(numel(to), rows.dtype, setting);
        const Tensor x = random_input(rows.n(), rows.dtype, setting);
        prepared.held = {x};
        const ReduceArgs args{view_of(prepared.result, to), view_of(x, {rows.rows, rows.cols}), op};
        HEDDLE_ADD_NATIVE(prepared, setting, reduce, args);
        if (setting.beside_onednn())
          add_raw_reduce(op, rows.rows, rows.cols, to[0], to[1], rows.dtype, prepared.sides);
        return prepared;
      });
}

Case argmax_case(const Rows& rows) {
  const Shape to = shape_of(rows, Kept::kRows);
  return case_of(
      "argmax_row/forward", rows, rows.bytes() + rows.rows * 8, [=](const Setting& setting) {
        Prepared prepared;
        prepared.result = output(rows.rows, DType::kInt64, setting);
        const Tensor x = random_input(rows.n(), rows.dtype, setting);
        prepared.held = {x};
        const ArgmaxArgs args{view_of(prepared.result, to), view_of(x, {rows.rows, rows.cols})};
        HEDDLE_ADD_NATIVE(prepared, setting, argmax, args);
        return prepared;
      });
}

Case log_softmax_case(bool forward, const Rows& rows) {
  return case_of(forward ? "log_softmax/forward" : "log_softmax/data", rows,
                 (forward ? 2 : 3) * rows.bytes(), [=](const Setting& setting) {
                   Prepared prepared;
                   prepared.result = output(rows.n(), rows.dtype, setting);
                   void* const to = prepared.hold(prepared.result);
                   void* const from = prepared.hold(random_input(rows.n(), rows.dtype, setting));
                   const DType kept = setting.dtype_of(rows.dtype);
                   if (forward) {
                     const LogSoftmaxArgs args{to, from, rows.rows, rows.cols, kept};
                     HEDDLE_ADD_NATIVE(prepared, setting, log_softmax_forward, args);
                     HEDDLE_ADD_CUDA_VENDOR(prepared, setting, log_softmax_forward, args, cudnn);
                   } else {
                     void* const y = prepared.hold(random_input(rows.n(), rows.dtype, setting));
                     const LogSoftmaxBackwardArgs args{to, from, y, rows.rows, rows.cols, kept};
                     HEDDLE_ADD_NATIVE(prepared, setting, log_softmax_backward, args);
                     HEDDLE_ADD_CUDA_VENDOR(prepared, setting, log_softmax_backward, args, cudnn);
                   }
                   if (forward && setting.beside_onednn())
                     add_raw_log_softmax(rows.rows, rows.cols, rows.dtype, prepared.sides);
                   return prepared;
                 });
}

Case cross_entropy_case(bool forward, const Rows& rows) {
  return case_of(
      forward ? "cross_entropy/forward" : "cross_entropy/data", rows,
      (forward ? 1 : 2) * rows.bytes(), [=](const Setting& setting) {
        Prepared prepared;
        const DType kept = setting.dtype_of(rows.dtype);
        const void* const labels = prepared.hold(random_input(rows.rows, DType::kInt64, setting));
        const CrossEntropyProblem problem{
            kept, rows.rows, rows.cols, prepared.hold(random_input(rows.n(), rows.dtype, setting)),
            static_cast<const int64_t*>(labels)};
        void* const stats = prepared.hold(random_input(rows.rows * 2, DType::kFloat32, setting));
        prepared.result = output(forward ? rows.rows : rows.n(), rows.dtype, setting);
        void* const to = prepared.hold(prepared.result);
        auto* const scale =
            static_cast<double*>(prepared.hold(random_input(1, DType::kFloat64, setting)));
        if (forward) {
          const CrossEntropyForwardArgs args{problem, false, to, stats, nullptr, scale};
          HEDDLE_ADD_NATIVE(prepared, setting, cross_entropy_forward, args);
        } else {
          const void* const dy = prepared.hold(random_input(1, rows.dtype, setting));
          const CrossEntropyBackwardArgs args{problem, to, stats, scale, dy, 0};
          HEDDLE_ADD_NATIVE(prepared, setting, cross_entropy_backward, args);
        }
        return prepared;
      });
}

}  // namespace

std::vector<Case> row_cases(const Scale& scale) {
  std::vector<Case> cases;
  for (const DType dtype : scale.dtypes) {
    const Rows rows{scale.batch * kRowsAnImage, kClasses, dtype};
    cases.push_back(reduce_case("sum_row/forward", ReduceOp::kSum, Kept::kRows, rows));
    cases.push_back(reduce_case("sum_column/forward", ReduceOp::kSum, Kept::kCols, rows));
    cases.push_back(reduce_case("sum_all/forward", ReduceOp::kSum, Kept::kNone, rows));
    cases.push_back(reduce_case("max_row/forward", ReduceOp::kMax, Kept::kRows, rows));
    cases.push_back(argmax_case(rows));
    for (const bool forward : {true, false}) cases.push_back(log_softmax_case(forward, rows));
    for (const bool forward : {true, false}) cases.push_back(cross_entropy_case(forward, rows));
  }
  return cases;
}

}  // namespace heddle::bench
